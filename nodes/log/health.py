"""Whether a log is usable: after a failed write or sync it does not know what is on disk.

A kernel reports a failed write-back once, and may drop the pages: a second sync would succeed
although data is missing (KAFKA-10778). So after the first failure every later change is refused;
the next process writes the uncertain data again (`nodes.log.recovery`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nodes.log.errors import LogOffline


class Health:
    """Shared by the parts of one log, which lies in `directory`."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.on_failure: Callable[[str], None] = lambda why: None
        """Called once with the reason when the disk fails; the opener of the log sets it."""
        self.offline = ""
        """Why the log refuses changes; empty while it accepts them."""

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Take the log offline when the disk fails."""
        try:
            yield
        except OSError as error:
            self.fail(error)
            raise

    def fail(self, why: object) -> None:
        """Take the log offline, unless it is already, and call `on_failure`."""
        if not self.offline:
            self.end(why)
            self.on_failure(self.offline)

    def end(self, why: object) -> None:
        """Take the log offline on its owner's request, unless it is already."""
        self.offline = self.offline or f"{self._directory}: {why}"

    def check(self) -> None:
        """Raise LogOffline if an earlier operation failed."""
        if self.offline:
            raise LogOffline(
                f"an earlier operation failed ({self.offline}); restart the node to recover"
            )
