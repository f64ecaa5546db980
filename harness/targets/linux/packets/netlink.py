"""Netlink for packet rules and socket diagnosis: messages, attributes, transactions.

pyroute2 speaks netlink too, but it sends one rule per transaction and waits for the kernel after
each. Removing the rules of a network partition would take longer than the partition may last. Here
a batch of rules is one transaction, which the kernel applies or refuses as a whole. Layouts follow
linux/netlink.h and linux/netfilter/nfnetlink.h. Integers in attributes are in network byte order,
integers in headers in the machine's.
"""

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

NETFILTER: Final = 12
SOCK_DIAG: Final = 4
REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
CREATE, APPEND = 0x400, 0x800

_ERROR, _DONE = 2, 3
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_NESTED = 0x8000
_TYPE_MASK = 0x3FFF
_RECEIVE_BYTES = 1 << 17
UNASKED_BYTES: Final = 1 << 13
"""Room for an unrequested message without a packet's content."""
_MESSAGES_PER_SEND = 256
_SO_RCVBUFFORCE = 33
_SOL_NETLINK, _NO_ENOBUFS = 270, 5
_TIMEOUT_S = 5.0


class Message(NamedTuple):
    """One message: its type, its flags beyond REQUEST, and everything after the header."""

    kind: int
    flags: int
    body: bytes


def attribute(number: int, value: bytes | int | str) -> bytes:
    """Encode an attribute: an integer as 32 bits in network order, a text with a final zero."""
    match value:
        case int():
            payload = struct.pack(">I", value & 0xFFFF_FFFF)
        case str():
            payload = value.encode() + b"\0"
        case bytes():
            payload = value
    padding = b"\0" * (-len(payload) % 4)
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), number) + payload + padding


def nested(number: int, *parts: bytes) -> bytes:
    """Encode an attribute that consists of attributes."""
    return attribute(number | _NESTED, b"".join(parts))


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (number, payload) of each attribute of a buffer; an incomplete last one is skipped."""
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        size, number = _ATTRIBUTE.unpack_from(data, at)
        if size < _ATTRIBUTE.size:
            return
        yield number & _TYPE_MASK, data[at + _ATTRIBUTE.size : at + size]
        at += size + (-size % 4)


def nfgen(family: int, resource: int = 0) -> bytes:
    """Encode the second header, which every netfilter message has."""
    return struct.pack(">BBH", family, 0, resource)


class Netlink:
    """A netlink socket in the network namespace that the calling thread is in at its creation."""

    def __init__(self, protocol: int) -> None:
        """Open it. Raises OSError."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._socket.settimeout(_TIMEOUT_S)
        self._sequence = 0
        self._early: list[tuple[int, bytes]] = []
        """Unrequested messages that arrived during the wait for an acknowledgement."""

    def request(self, message: Message) -> None:
        """Send one message and wait for its acknowledgement. Raises OSError as the kernel says."""
        self._send([message])
        self._await({self._sequence})

    def transaction(self, subsystem: int, messages: Sequence[Message]) -> None:
        """Apply all messages or none (nfnetlink batch). Raises OSError with the first refusal."""
        if not messages:
            return
        begin = Message(_BATCH_BEGIN, 0, nfgen(0, subsystem))
        end = Message(_BATCH_END, 0, nfgen(0, subsystem))
        self._send([begin, *messages, end], unanswered=(_BATCH_BEGIN, _BATCH_END))
        last = self._sequence - 1
        self._await(set(range(last - len(messages) + 1, last + 1)))

    def dump(self, message: Message) -> Iterator[bytes]:
        """Yield the bodies of the answers to a dump request. Raises OSError."""
        self._send([Message(message.kind, message.flags | DUMP, message.body)], unanswered=None)
        while True:
            for kind, _sequence, body in self._receive():
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    _raise(body)
                yield body

    def post(self, messages: Sequence[Message]) -> None:
        """Send messages without waiting for answers; errors appear in `pending`."""
        for first in range(0, len(messages), _MESSAGES_PER_SEND):
            self._send(messages[first : first + _MESSAGES_PER_SEND], unanswered=None)

    def pending(self, limit: int, size_bytes: int = UNASKED_BYTES) -> Iterator[tuple[int, bytes]]:
        """Yield (kind, body) of unrequested messages, with at most `limit` reads of `size_bytes`;
        never waits.
        """
        early, self._early = self._early, []
        yield from early
        for _ in range(limit):
            try:
                # `recv` would wait, `os.read` of the descriptor does not.
                data = os.read(self._socket.fileno(), size_bytes)
            except BlockingIOError:
                return
            for kind, _sequence, body in _parsed(data):
                yield kind, body

    def widen(self, size_bytes: int) -> None:
        """Enlarge the receive buffer, and turn off the errors that report lost messages."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size_bytes)
        except PermissionError:  # outside of the initial user namespace the usual limit holds
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)
        self._socket.setsockopt(_SOL_NETLINK, _NO_ENOBUFS, 1)

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, messages: Sequence[Message], unanswered: tuple[int, ...] | None = ()) -> None:
        data = b""
        for message in messages:
            self._sequence += 1
            wanted = unanswered is not None and message.kind not in unanswered
            flags = message.flags | REQUEST | (ACK if wanted else 0)
            size = _HEADER.size + len(message.body)
            data += _HEADER.pack(size, message.kind, flags, self._sequence, 0)
            data += message.body + b"\0" * (-size % 4)
        self._socket.send(data)

    def _await(self, sequences: set[int]) -> None:
        """Wait until all are acknowledged. Raises OSError when the kernel refuses one."""
        while sequences:
            for kind, sequence, body in self._receive():
                if kind == _ERROR:
                    _raise(body)
                    sequences.discard(sequence)
                else:
                    self._early.append((kind, body))

    def _receive(self) -> Iterator[tuple[int, int, bytes]]:
        return _parsed(self._socket.recv(_RECEIVE_BYTES))


def _parsed(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (kind, sequence number, body) of each message."""
    at = 0
    while at + _HEADER.size <= len(data):
        size, kind, _flags, sequence, _port = _HEADER.unpack_from(data, at)
        yield kind, sequence, data[at + _HEADER.size : at + size]
        at += max(size + (-size % 4), _HEADER.size)


def _raise(body: bytes) -> None:
    (code,) = struct.unpack_from("=i", body)
    if code:
        raise OSError(-code, os.strerror(-code))
