"""Reads the heads of requests of many slow clients at once, in one thread.

A connection needs only a buffer until its head is complete; then it gets a worker thread. So
clients that send one byte per second block nobody. Bounds: HEAD_BYTES for one head, HEAD_S to send
it, WAITING connections at a time. A client beyond a bound gets a 408 or 503 and is dropped.
"""

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

WAITING: Final = 1_000
"""Connections with an incomplete head; one more drops the oldest."""
HEAD_BYTES: Final = 160 * 1024
"""More than the longest line and the most headers of an allowed request."""
HEAD_S: Final = 10.0
_CHUNK: Final = 65_536
_ENDS: Final = (b"\r\n\r\n", b"\n\n")
_IDLE_S: Final = 1.0

Ready = Callable[[socket.socket, Any, bytes], None]
"""Called with a connection, its address, and the bytes that came: a complete head, too many bytes,
or all bytes before the client closed."""


def empty_response(status: str) -> bytes:
    """Return a response without a body, for a client without a complete request."""
    return (
        f"HTTP/1.1 {status}\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
    ).encode()


@dataclass(eq=False, slots=True)
class _PendingConnection:
    """A connection with an incomplete head."""

    connection: socket.socket
    address: Any
    deadline_s: float
    head: bytearray = field(default_factory=bytearray)

    @property
    def whole(self) -> bool:
        return len(self.head) > HEAD_BYTES or any(end in self.head for end in _ENDS)


class RequestHeads:
    """Connections without a complete request. `add` may be called from any thread."""

    def __init__(self, ready: Ready, *, waiting: int = WAITING, head_s: float = HEAD_S) -> None:
        self._ready, self._most, self._head_s = ready, waiting, head_s
        self._new: deque[_PendingConnection] = deque()
        # In the order of their deadlines: all have the same time limit.
        self._waiting: dict[_PendingConnection, None] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._closed = False
        self._thread = threading.Thread(target=self._read, name="heads", daemon=True)
        self._thread.start()

    def add(self, connection: socket.socket, address: Any) -> None:
        """Read the head of a connection. From now on this object closes it."""
        connection.setblocking(False)
        self._new.append(_PendingConnection(connection, address, time.monotonic() + self._head_s))
        self._wake_up()

    def close(self) -> None:
        """Drop all waiting connections and end the thread."""
        self._closed = True
        self._wake_up()
        self._thread.join()
        for each in (*self._waiting, *self._new):
            each.connection.close()
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def _wake_up(self) -> None:
        with contextlib.suppress(BlockingIOError):  # already woken
            self._wake.send(b"x")

    def _read(self) -> None:
        while not self._closed:
            first = next(iter(self._waiting), None)
            left_s = _IDLE_S if first is None else first.deadline_s - time.monotonic()
            for key, _ in self._selector.select(max(0.0, left_s)):
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        self._woken.recv(_CHUNK)
                else:
                    self._take(key.data)
            while self._new:
                self._begin(self._new.popleft())
            self._drop_late()

    def _begin(self, each: _PendingConnection) -> None:
        if len(self._waiting) >= self._most:
            self._refuse(next(iter(self._waiting)), "503 Service Unavailable")
        self._waiting[each] = None
        self._selector.register(each.connection, selectors.EVENT_READ, each)
        self._take(each)

    def _take(self, each: _PendingConnection) -> None:
        """Read more of a head, and pass on a complete one."""
        try:
            part = each.connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            part = b""
            each.head.clear()
        each.head += part
        if part and not each.whole:
            return
        self._forget(each)
        if each.head:
            self._ready(each.connection, each.address, bytes(each.head))
        else:
            each.connection.close()

    def _drop_late(self) -> None:
        now_s = time.monotonic()
        while (first := next(iter(self._waiting), None)) and first.deadline_s <= now_s:
            self._refuse(first, "408 Request Timeout")

    def _refuse(self, each: _PendingConnection, status: str) -> None:
        self._forget(each)
        with contextlib.suppress(OSError):
            each.connection.send(empty_response(status))
        each.connection.close()

    def _forget(self, each: _PendingConnection) -> None:
        del self._waiting[each]
        self._selector.unregister(each.connection)
