"""Whether a log may go on: after a failed write or sync it cannot say what is on disk any more.

A kernel reports a failed write-back once, and may drop the pages: a second sync would succeed and
mean nothing (KAFKA-10778). So the first failure is remembered, and every later change is refused;
the next process writes again what may not be there (`nodes.log.recovery`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nodes.log.errors import LogOffline


class Health:
    """Shared by the parts of one log, which lies in `directory`."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.on_failure: Callable[[str], None] = lambda why: None
        """Told why, once, when the disk fails; for whoever opened the log to set."""
        self.offline = ""
        """Why the log refuses to go on; empty while it may."""

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Take the log offline when the disk fails."""
        try:
            yield
        except OSError as error:
            self.fail(error)
            raise

    def fail(self, why: object) -> None:
        """Take the log offline, unless it is, and tell who is responsible for it."""
        if not self.offline:
            self.end(why)
            self.on_failure(self.offline)

    def end(self, why: object) -> None:
        """Take the log offline, unless it is, as its owner wishes."""
        self.offline = self.offline or f"{self._directory}: {why}"

    def check(self) -> None:
        """Raise LogOffline when an earlier operation failed."""
        if self.offline:
            raise LogOffline(
                f"an earlier operation failed ({self.offline}); restart the node to recover"
            )
