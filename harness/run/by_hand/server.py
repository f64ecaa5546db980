"""Answers requests to a breaker over sockets; see `protocol`.

Every connection has a thread. An error of one request is its answer, and reaches nobody else.
"""

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.admin.errors import BadRequest
from harness.run.by_hand.protocol import (
    FAILURE,
    REQUEST,
    Connection,
    Message,
    Refused,
    socket_path,
)
from nemesis.base import NemesisError

Handler = Callable[..., Any]
"""Does one kind of request: takes its fields by name, returns JSON-able data. Raises Refused."""

BACKLOG: Final = 16


def answer(handlers: Mapping[str, Handler], request: Message) -> Message:
    """Do a request and return the answer; never raises."""
    fields = {name: value for name, value in request.items() if name != "do"}
    handler = handlers.get(str(request.get("do")))
    if handler is None:
        return {"error": f"there is no request {request.get('do')!r}", "kind": REQUEST}
    try:
        return {"ok": handler(**fields)}
    except Refused as error:
        return {"error": str(error), "kind": error.kind}
    except (NemesisError, BadRequest) as error:
        return {"error": str(error), "kind": REQUEST}
    except Exception as error:
        return {"error": str(error) or type(error).__name__, "kind": FAILURE}


def serve(connected: socket.socket, handlers: Mapping[str, Handler]) -> None:
    """Answer the requests of one connection until the other end closes it."""
    connection = Connection(connected)
    try:
        while True:
            try:
                request = connection.receive()
            except Refused as error:
                connection.send({"error": str(error), "kind": REQUEST})
                continue
            if request is None:
                return
            connection.send(answer(handlers, request))
    except (OSError, ValueError):
        return  # the other end is gone, or this end was closed
    finally:
        connection.close()


class Listener:
    """Listens at the socket of a run; only this user may connect."""

    def __init__(self, run_dir: Path, handlers: Mapping[str, Handler]) -> None:
        """Begin to listen. Raises OSError."""
        self._run_dir = run_dir
        self._handlers = handlers
        self._socket = socket.socket(socket.AF_UNIX)
        self._mutex = threading.Lock()
        self._open = 0
        with socket_path(run_dir) as path:
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - through a descriptor
            self._socket.bind(path)
        self._socket.listen(BACKLOG)
        threading.Thread(target=self._accept, name="breaker", daemon=True).start()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._open

    def close(self) -> None:
        """Listen no more; open connections stay."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with socket_path(self._run_dir) as path, suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - through a descriptor

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        self._count(+1)
        try:
            serve(connected, self._handlers)
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        with self._mutex:
            self._open += more
