"""The raw clients: encoded requests on plain sockets, as fast as a Python process can send them.

They use only the standard library, and decode only error codes and batch headers. So a client
starts at once and costs little while it runs. The remaining cost is measured against `sink`, which
answers every request at once.

Every loop ends at its time; every wait on a socket is bounded. A loop raises ClientError when the
broker refuses, closes the connection, or stops answering.
"""

import select
import socket
import struct
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

SILENCE_S: Final = 10.0
"""A client gives up when the broker does not answer for this long."""
SOCKET_BYTES: Final = 4 << 20
READ_BYTES: Final = 1 << 18
MAX_LATENCIES: Final = 1_000_000
"""A latency measurement ends early with this many values: 8 MB."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_BATCH = struct.Struct(">qi11xi")
"""A batch's header: base offset, length, (epoch, magic, CRC, attributes), last offset delta."""
_BATCH_HEADER_BYTES: Final = 61
_LENGTH_FROM: Final = 12
_CRC_AT: Final = 17
_CHECKED_FROM: Final = 21


class ClientError(Exception):
    """The broker refused, closed the connection, or stopped answering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Bytes to send, and the shape of their only answer, with its length prefix."""

    data: bytes
    response_bytes: int
    """Size of a produce's whole answer, or of the part of a fetch's answer before the records."""
    error_at: int
    """Position of the int16 error code in the answer; 0 means success."""
    messages: int
    """Number of messages that the answer acknowledges."""
    offset_at: int = 0
    """Position of the int64 fetch offset in a fetch request."""


class Window(NamedTuple):
    """The time in which a loop counts, in monotonic ns."""

    warm_ns: int
    """The end of the warm-up: counting starts here."""
    end_ns: int


class Counted(NamedTuple):
    """The messages of a length of time."""

    messages: int
    seconds: float


def connect(address: tuple[str, int]) -> socket.socket:
    """Return a connection that sends at once and waits a bounded time. Raises ClientError."""
    try:
        connection = socket.create_connection(address, timeout=SILENCE_S)
    except OSError as error:
        raise ClientError(f"cannot connect to {address[0]}:{address[1]}: {error}") from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The kernel bounds the waits; Python's own timeout would add a poll to every call.
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(SILENCE_S), 0))
    connection.settimeout(None)
    return connection


def latencies(
    connection: socket.socket, frame: Frame, unanswered: bytes | None, window: Window
) -> "array[int]":
    """Return the ns from send to answer of one request at a time.

    With `unanswered` (acks=0) it is the time to pass those bytes to the socket. The answered frame
    after them is not timed; it keeps the broker's queue as empty as in the other acks modes.
    """
    taken = array("q")
    answer = bytearray(frame.response_bytes)
    now_ns = time.monotonic_ns
    try:
        while len(taken) < MAX_LATENCIES:
            before = now_ns()
            if unanswered is not None:
                connection.sendall(unanswered)
                after = now_ns()
                connection.sendall(frame.data)
                _receive(connection, memoryview(answer))
            else:
                connection.sendall(frame.data)
                _receive(connection, memoryview(answer))
                after = now_ns()
            _check(answer, 0, frame)
            if before >= window.warm_ns:
                taken.append(after - before)
            if after >= window.end_ns:
                break
    except OSError as error:
        raise ClientError(f"the connection to the broker broke: {error}") from error
    return taken


class _Pipe:
    """One connection with a number of requests in flight."""

    __slots__ = ("acked", "connection", "rest", "sent", "writable")

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.sent = 0
        self.acked = 0
        self.rest = bytearray()
        self.writable = True


def pipelined(
    connections: list[socket.socket], frame: Frame, in_flight: int, window: Window
) -> Counted:
    """Send `frame` on every connection, with at most `in_flight` unanswered requests on each."""
    # The next bytes of any connection are always one slice of this.
    stream = memoryview(frame.data * (in_flight + 1))
    pipes = {}
    with select.epoll() as poll:
        for connection in connections:
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
            pipe = _Pipe(connection)
            pipes[connection.fileno()] = pipe
            poll.register(connection, select.EPOLLIN)
            _send(pipe, frame, stream, in_flight, poll)
        try:
            start, start_ns = _exchange(pipes, frame, stream, in_flight, poll, window.warm_ns)
            end, end_ns = _exchange(pipes, frame, stream, in_flight, poll, window.end_ns)
        except OSError as error:
            raise ClientError(f"the connection to the broker broke: {error}") from error
    return Counted((end - start) * frame.messages, (end_ns - start_ns) / 1e9)


def write(
    connection: socket.socket, frame: Frame, in_flight: int, requests: Iterable[bytes]
) -> None:
    """Send the requests, at most `in_flight` of them unanswered; all answers are like `frame`'s."""
    answer = memoryview(bytearray(frame.response_bytes))
    unanswered = 0
    try:
        for request in requests:
            if unanswered == in_flight:
                _receive(connection, answer)
                _check(answer, 0, frame)
                unanswered -= 1
            connection.sendall(request)
            unanswered += 1
        for _ in range(unanswered):
            _receive(connection, answer)
            _check(answer, 0, frame)
    except OSError as error:
        raise ClientError(f"the connection to the broker broke: {error}") from error


def fetch_once(connection: socket.socket, frame: Frame) -> bytes:
    """Return the records of one fetch from offset 0."""
    head = bytearray(frame.response_bytes)
    try:
        connection.sendall(frame.data)
        _receive(connection, memoryview(head))
        _check(head, 0, frame)
        records = bytearray(_INT32.unpack_from(head, len(head) - 4)[0])
        _receive(connection, memoryview(records))
    except OSError as error:
        raise ClientError(f"the connection to the broker broke: {error}") from error
    return bytes(records)


def _exchange(
    pipes: Mapping[int, _Pipe],
    frame: Frame,
    stream: memoryview,
    in_flight: int,
    poll: select.epoll,
    until_ns: int,
) -> tuple[int, int]:
    """Exchange requests and answers until the first answer after `until_ns`.

    Returns the number of answers so far, and the time of that answer.
    """
    answered_ns = time.monotonic_ns()
    while True:
        events = poll.poll(1.0)
        now_ns = time.monotonic_ns()
        answered = False
        for descriptor, event in events:
            pipe = pipes[descriptor]
            if event & ~select.EPOLLOUT:
                answered = _take_answers(pipe, frame) or answered
            _send(pipe, frame, stream, in_flight, poll)
        if answered:
            answered_ns = now_ns
            if now_ns >= until_ns:
                return sum(pipe.acked for pipe in pipes.values()), now_ns
        elif now_ns - answered_ns > SILENCE_S * 1e9:
            raise ClientError(f"no answer for {SILENCE_S:.0f} s")


def _take_answers(pipe: _Pipe, frame: Frame) -> bool:
    data = pipe.connection.recv(READ_BYTES)
    if not data:
        raise ClientError("the broker closed the connection")
    rest = pipe.rest
    rest += data
    count = len(rest) // frame.response_bytes
    for number in range(count):
        _check(rest, number * frame.response_bytes, frame)
    del rest[: count * frame.response_bytes]
    pipe.acked += count
    return count > 0


def _send(
    pipe: _Pipe, frame: Frame, stream: memoryview, in_flight: int, poll: select.epoll
) -> None:
    size = len(frame.data)
    allowed = (pipe.acked + in_flight) * size - pipe.sent
    writable = True
    if allowed > 0:
        start = pipe.sent % size
        try:
            done = pipe.connection.send(stream[start : start + allowed])
        except BlockingIOError:
            done = 0
        pipe.sent += done
        writable = done == allowed
    if writable != pipe.writable:
        pipe.writable = writable
        poll.modify(pipe.connection, select.EPOLLIN | (0 if writable else select.EPOLLOUT))


def consume(
    connection: socket.socket,
    frame: Frame,
    window: Window,
    crc32c: Callable[[memoryview], int] | None,
) -> Counted:
    """Fetch a partition from offset 0 to its end, again and again, with one request in flight.

    With `crc32c` the checksum of every batch is checked.
    """
    request = bytearray(frame.data)
    head = memoryview(bytearray(frame.response_bytes))
    room = memoryview(bytearray(1 << 21))
    offset = messages = 0
    counting_since_ns = 0
    try:
        while True:
            _INT64.pack_into(request, frame.offset_at, offset)
            connection.sendall(request)
            _receive(connection, head)
            _check(head, 0, frame)
            (size,) = _INT32.unpack_from(head, len(head) - 4)
            if size > len(room):
                room = memoryview(bytearray(size))
            _receive(connection, room[:size])
            high_watermark = _INT64.unpack_from(head, frame.error_at + 2)[0]
            following, found = _walk(room[:size], offset, crc32c)
            now_ns = time.monotonic_ns()
            if counting_since_ns:
                messages += found
                if now_ns >= window.end_ns:
                    return Counted(messages, (now_ns - counting_since_ns) / 1e9)
            elif now_ns >= window.warm_ns:
                counting_since_ns = now_ns
            offset = 0 if following >= high_watermark or following == offset else following
    except OSError as error:
        raise ClientError(f"the connection to the broker broke: {error}") from error


def _walk(
    records: memoryview, offset: int, crc32c: Callable[[memoryview], int] | None
) -> tuple[int, int]:
    """Return the offset after the last whole batch, and the number of records up to there.

    The last batch may be incomplete; it does not count.
    """
    at, end, found = 0, len(records), 0
    unpack = _BATCH.unpack_from
    while end - at >= _BATCH_HEADER_BYTES:
        base, length, last_delta = unpack(records, at)
        behind = at + _LENGTH_FROM + length
        if behind > end:
            break
        if crc32c is not None:
            checksum = _INT32.unpack_from(records, at + _CRC_AT)[0] & 0xFFFFFFFF
            if crc32c(records[at + _CHECKED_FROM : behind]) != checksum:
                raise ClientError(f"the batch at offset {base} does not match its checksum")
        offset = base + last_delta + 1
        found += last_delta + 1
        at = behind
    return offset, found


def batch_sizes(records: bytes) -> list[int]:
    """Return the number of records of each whole batch."""
    found = []
    at = 0
    while len(records) - at >= _BATCH_HEADER_BYTES:
        _, length, last_delta = _BATCH.unpack_from(records, at)
        at += _LENGTH_FROM + length
        if at <= len(records):
            found.append(last_delta + 1)
    return found


def sink(
    listener: socket.socket, request_bytes: int, answer: bytes, stop: Callable[[], bool]
) -> None:
    """Answer every `request_bytes` of every connection with `answer`, until `stop` is true.

    It decodes nothing: no broker could answer the same client faster.
    """
    peers: dict[int, tuple[socket.socket, list[int]]] = {}
    room = bytearray(SOCKET_BYTES)
    listener.setblocking(False)
    with select.epoll() as poll:
        poll.register(listener, select.EPOLLIN)
        while not stop():
            for descriptor, _ in poll.poll(0.2):
                if descriptor == listener.fileno():
                    peer, _ = listener.accept()
                    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    peer.settimeout(SILENCE_S)
                    peers[peer.fileno()] = (peer, [0])
                    poll.register(peer, select.EPOLLIN)
                    continue
                peer, counted = peers[descriptor]
                got = 0
                try:
                    got = peer.recv_into(room)
                    whole, counted[0] = divmod(counted[0] + got, request_bytes)
                    if whole:
                        peer.sendall(answer * whole)
                except OSError:
                    got = 0
                if not got:
                    poll.unregister(peer)
                    del peers[descriptor]
                    peer.close()
    for peer, _ in peers.values():
        peer.close()


def _receive(connection: socket.socket, room: memoryview) -> None:
    """Fill `room` with bytes of the connection."""
    at = 0
    while at < len(room):
        got = connection.recv_into(room[at:], 0, socket.MSG_WAITALL)
        if not got:
            raise ClientError("the broker closed the connection")
        at += got


def _check(answer: Any, at: int, frame: Frame) -> None:
    code = _INT16.unpack_from(answer, at + frame.error_at)[0]
    if code:
        raise ClientError(f"the broker answered with error code {code}")
