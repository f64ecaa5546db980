"""Asks a breaker in another process; see `protocol`. It imports nothing heavy."""

import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.recording.journal import registered
from harness.run.by_hand.protocol import FAILURE, Connection, Message, Refused, socket_path


class BreakerClient:
    """A connection to a breaker. Several threads may ask; each waits for the answers of others."""

    def __init__(self, connected: socket.socket) -> None:
        self._connection = Connection(connected)
        self._mutex = threading.Lock()

    @classmethod
    def of_run(cls, run_dir: Path) -> Self | None:
        """Connect to the breaker of a run; None if there is none."""
        connected = socket.socket(socket.AF_UNIX)
        try:
            with socket_path(run_dir) as path:
                connected.connect(path)
        except OSError:
            connected.close()
            return None
        return cls(connected)

    def ask(self, do: str, **fields: Any) -> Any:
        """Return the answer to a request. Raises Refused."""
        with self._mutex:
            return self._read(self._exchange({"do": do, **fields}))

    def first_answer(self) -> Any:
        """Return what the process says when it is ready, without a request. Raises Refused."""
        with self._mutex:
            return self._read(self._exchange(None))

    def _read(self, answer: Message | None) -> Any:
        if answer is None:
            raise Refused("the process of the cluster has ended; its log says why", FAILURE)
        if "error" in answer:
            raise Refused(str(answer["error"]), str(answer.get("kind", FAILURE)))
        return answer.get("ok")

    def _exchange(self, request: Message | None) -> Message | None:
        try:
            if request is not None:
                self._connection.send(request)
            return self._connection.receive()
        except OSError:
            return None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def end_keeper(run_dir: Path) -> None:
    """Make the keeper of a detached cluster heal everything and end; do nothing without one."""
    client = BreakerClient.of_run(run_dir)
    if client is not None:
        with client, suppress(Refused):
            client.ask("end")
            client.first_answer()  # none comes: it waits for the end of the keeper


def end_idle_keeper(run_dir: Path) -> bool:
    """Make the keeper of a detached cluster end if no fault is in force; return whether it ends."""
    client = BreakerClient.of_run(run_dir)
    if client is None:
        return False
    with client:
        try:
            return bool(client.ask("end-if-idle"))
        except Refused:  # a cluster in the foreground has no keeper
            return False


def end_keepers() -> None:
    """Do so for all detached clusters of this user; clusters in the foreground stay as they are."""
    for path in registered():
        end_keeper(path.parent)
