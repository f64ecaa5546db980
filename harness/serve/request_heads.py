"""Reads the heads of requests, of many slow clients at once, in one thread.

A connection costs a buffer until its head is whole; only then does it get a worker. So clients that
send a byte a second hold nobody up. Bounds: HEAD_BYTES for one head, HEAD_S to send it, WAITING
connections at a time. A client beyond a bound is answered (408 or 503) and dropped.
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
"""Connections whose head is not whole yet; one more drops the oldest."""
HEAD_BYTES: Final = 160 * 1024
"""More than the longest line and the most headers that a request may have."""
HEAD_S: Final = 10.0
_CHUNK: Final = 65_536
_ENDS: Final = (b"\r\n\r\n", b"\n\n")
_IDLE_S: Final = 1.0

Ready = Callable[[socket.socket, Any, bytes], None]
"""Takes a connection, its address, and the bytes that came: whole, too long, or all there was."""


def refusal_of(status: str) -> bytes:
    """An answer without a body, for a client that has not asked yet."""
    return (
        f"HTTP/1.1 {status}\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
    ).encode()


@dataclass(eq=False, slots=True)
class _Waiting:
    """A connection whose head is not whole."""

    connection: socket.socket
    address: Any
    deadline_s: float
    head: bytearray = field(default_factory=bytearray)

    @property
    def whole(self) -> bool:
        return len(self.head) > HEAD_BYTES or any(end in self.head for end in _ENDS)


class Heads:
    """Connections until their requests are there. `add` may be called from any thread."""

    def __init__(self, ready: Ready, *, waiting: int = WAITING, head_s: float = HEAD_S) -> None:
        self._ready, self._most, self._head_s = ready, waiting, head_s
        self._new: deque[_Waiting] = deque()
        # In the order of their deadlines, since all have the same time.
        self._waiting: dict[_Waiting, None] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._closed = False
        self._thread = threading.Thread(target=self._read, name="heads", daemon=True)
        self._thread.start()

    def add(self, connection: socket.socket, address: Any) -> None:
        """Read a connection's head; from now on it is ours to close."""
        connection.setblocking(False)
        self._new.append(_Waiting(connection, address, time.monotonic() + self._head_s))
        self._wake_up()

    def close(self) -> None:
        """Drop everybody who waits, and end the thread."""
        self._closed = True
        self._wake_up()
        self._thread.join()
        for each in (*self._waiting, *self._new):
            each.connection.close()
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def _wake_up(self) -> None:
        with contextlib.suppress(BlockingIOError):  # woken already
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

    def _begin(self, each: _Waiting) -> None:
        if len(self._waiting) >= self._most:
            self._refuse(next(iter(self._waiting)), "503 Service Unavailable")
        self._waiting[each] = None
        self._selector.register(each.connection, selectors.EVENT_READ, each)
        self._take(each)

    def _take(self, each: _Waiting) -> None:
        """What has come of a head; a whole one is handed on."""
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

    def _refuse(self, each: _Waiting, status: str) -> None:
        self._forget(each)
        with contextlib.suppress(OSError):
            each.connection.send(refusal_of(status))
        each.connection.close()

    def _forget(self, each: _Waiting) -> None:
        del self._waiting[each]
        self._selector.unregister(each.connection)
