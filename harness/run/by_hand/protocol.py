"""How a breaker is asked: one JSON object a line over a Unix socket, one line as the answer.

    {"do": "inject", "fault": "kill", "targets": "one"}   ->  {"ok": {"id": 3, ...}}
    {"do": "heal", "id": 4}                               ->  {"error": "...", "kind": "request"}

The kind of an error is `request` (the request makes no sense; nothing was done) or `failure`.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from harness.recording.journal import registry_dir

REQUEST: Final = "request"
FAILURE: Final = "failure"
MAX_LINE_BYTES: Final = 1 << 20
PROVE_S: Final = 5.0
"""How long an injection waits for the proof of its effect."""
SETTLE_S: Final = 30.0
"""How long the replicas of a cluster may take to be in sync again."""

Message = dict[str, Any]


class Refused(Exception):
    """A breaker did not do what it was asked; the text says why. `kind`: see the module."""

    def __init__(self, text: str, kind: str = REQUEST) -> None:
        super().__init__(text)
        self.kind = kind


def socket_name(run_dir: Path) -> str:
    """Return the name of the socket, in the registry, at which a run's breaker is asked."""
    return f"{blake2b(str(run_dir.resolve()).encode(), digest_size=8).hexdigest()}.sock"


@contextmanager
def socket_path(run_dir: Path) -> Iterator[str]:
    """Give a short path of the socket of a run, since the kernel allows only 107 bytes."""
    descriptor = os.open(registry_dir(), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{socket_name(run_dir)}"
    finally:
        os.close(descriptor)


class Connection:
    """Messages over a connected socket."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._file = connected.makefile("rb")

    def send(self, message: Message) -> None:
        """Send one message. Raises OSError."""
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Message | None:
        """Return the next message; None at the end. Raises OSError, Refused for garbage."""
        line = self._file.readline(MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            return None
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Refused(f"this is no request: {error}") from error
        if not isinstance(found, dict):
            raise Refused("a request is a JSON object")
        return found

    def close(self) -> None:
        """Close the connection, also under a thread that waits in `receive`."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._socket.close()
