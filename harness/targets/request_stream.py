"""Kafka's requests in the bytes of TCP connections, and the decision which one to hold. No I/O.

A stream that is joined in the middle is read from the first segment on that begins with a request.
Encrypted connections have no readable request. The module imports no installed package, because the
packet holder uses it.
"""

import struct
from collections import deque
from typing import Final, NamedTuple

from nemesis.requests import RequestFilter, SeenRequest, WatchedRequests

HEAD_BYTES: Final = 1024
"""The part of a request, from its size field on, that holds the client id and the name."""
MAX_REQUEST_BYTES: Final = 128 << 20
MAX_API_KEY: Final = 127
MAX_API_VERSION: Final = 31
NOTED: Final = 64
"""How many noted requests are remembered."""

_HEADER = struct.Struct(">ihhih")
_NO_FLEXIBLE: Final = MAX_API_VERSION + 1

NAME_FIRST: Final = {
    0: (3, 9, _NO_FLEXIBLE),
    8: (0, 8, _NO_FLEXIBLE),
    9: (0, 6, 8),
    11: (0, 6, _NO_FLEXIBLE),
    12: (0, 4, _NO_FLEXIBLE),
    13: (0, 4, _NO_FLEXIBLE),
    14: (0, 4, _NO_FLEXIBLE),
    22: (0, 2, _NO_FLEXIBLE),
    24: (0, 3, 4),
    25: (0, 3, _NO_FLEXIBLE),
    26: (0, 3, _NO_FLEXIBLE),
    28: (0, 3, _NO_FLEXIBLE),
    68: (0, 0, _NO_FLEXIBLE),
}
"""API keys of requests that begin with a transactional id or a group: the first version that does,
the first flexible version, and the first version that begins with an array of such names."""


class Request(NamedTuple):
    """The beginning of a request."""

    size: int
    """Bytes of the whole request, with its size field."""
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    name: str
    """The transactional id or the group at the beginning of the body; empty if there is none."""


def read_request(data: bytes) -> Request | None:
    """Read the request at the beginning of `data`; None if no request begins there.

    A name that is not wholly in `data` is empty.
    """
    if len(data) < _HEADER.size:
        return None
    size, api_key, api_version, correlation_id, length = _HEADER.unpack_from(data)
    at = _HEADER.size
    plausible = (
        _HEADER.size - 4 + max(length, 0) <= size <= MAX_REQUEST_BYTES
        and 0 <= api_key <= MAX_API_KEY
        and 0 <= api_version <= MAX_API_VERSION
        and length >= -1
    )
    if not plausible:
        return None
    client_id = data[at : at + max(length, 0)]
    name = _read_name(data[at + len(client_id) : 4 + size], api_key, api_version)
    return Request(4 + size, api_key, api_version, correlation_id, _text(client_id), _text(name))


def _read_name(body: bytes, api_key: int, version: int) -> bytes:
    first, flexible, many = NAME_FIRST.get(api_key, (_NO_FLEXIBLE, 0, 0))
    if version < first:
        return b""
    try:
        if version < flexible:
            (length,) = struct.unpack_from(">h", body)
            return body[2 : 2 + length] if 0 <= length <= len(body) - 2 else b""
        tags, at = _varint(body, 0)
        for _ in range(tags):  # the header's tagged fields
            _, at = _varint(body, at)
            length, at = _varint(body, at)
            at += length
        if version >= many:
            _, at = _varint(body, at)
        length, at = _varint(body, at)
        length -= 1
        return body[at : at + length] if 0 <= length <= len(body) - at else b""
    except (struct.error, IndexError):
        return b""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint; return it and the place behind it. Raises IndexError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift > 28:
            return value, at


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


class RequestStream:
    """Finds the requests in the bytes of one connection, in one direction."""

    def __init__(self) -> None:
        self._remaining = 0
        """Bytes of the present request that are still to come."""
        self._head = b""
        """The beginning of a request whose client id or name has not arrived yet."""

    def feed(self, data: bytes) -> list[Request]:
        """Take the next bytes; return the requests whose beginning is now known."""
        found: list[Request] = []
        data, self._head = self._head + data, b""
        at = 0
        while at < len(data):
            if self._remaining:
                step = min(self._remaining, len(data) - at)
                self._remaining -= step
                at += step
                continue
            size = int.from_bytes(data[at : at + 4], "big") if len(data) - at >= 4 else HEAD_BYTES
            if size <= MAX_REQUEST_BYTES and len(data) - at < min(4 + size, HEAD_BYTES):
                self._head = data[at:]
                break
            request = read_request(data[at : at + HEAD_BYTES])
            if request is None:
                break  # the next segment may begin with a request
            found.append(request)
            self._remaining = request.size
        return found


class RequestWatch:
    """Holds the first request that a filter matches, and notes others. Times are seconds of one
    monotonic clock.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        """The TCP port to which the requests are sent."""
        self.hold: RequestFilter | None = None
        self.note: RequestFilter | None = None
        self.connection: str | None = None
        """The connection that is held."""
        self._held: SeenRequest | None = None
        self._held_s: tuple[float, float | None] = (0.0, None)
        """When the held request arrived, and when it was let go."""
        self._noted: deque[tuple[float, SeenRequest]] = deque(maxlen=NOTED)

    def holds(self, connection: str, request: Request, now_s: float) -> bool:
        """Look at a request that arrives now; return whether to hold it."""
        _, api_key, version, correlation_id, client_id, name = request
        seen = SeenRequest(api_key, version, correlation_id, client_id, name, connection, 0.0)
        if (
            self._held is None
            and self.hold is not None
            and self.hold.matches(api_key, client_id, name)
        ):
            self._held, self._held_s, self.connection = seen, (now_s, None), connection
            return True
        if self.note is not None and self.note.matches(api_key, client_id, name):
            self._noted.append((now_s, seen))
        return False

    def let_go(self, now_s: float) -> None:
        """Note that the held request passes now, if it is held."""
        if self.connection is not None:
            self.connection, self._held_s = None, (self._held_s[0], now_s)

    def report(self, now_s: float) -> WatchedRequests:
        """Return what was seen so far."""
        arrived_s, passed_s = self._held_s
        held = self._held
        return WatchedRequests(
            held=None if held is None else held._replace(age_ms=1e3 * (now_s - arrived_s)),
            held_ms=None if passed_s is None else 1e3 * (passed_s - arrived_s),
            noted=[each._replace(age_ms=1e3 * (now_s - at_s)) for at_s, each in self._noted],
        )
