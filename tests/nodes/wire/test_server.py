"""The cost of one connection: what it starts, holds and reads, on a transport made of lists."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.wire.codec import decode_response, encode_request
from nodes.wire.connections import ConnectionLimits, Connections
from nodes.wire.errors import Unanswerable
from nodes.wire.server import (
    MAX_BYTES_IN_FLIGHT,
    MAX_IN_FLIGHT,
    TURN_BYTES,
    Api,
    Dispatcher,
    Listener,
    RequestContext,
    ServerConnection,
)
from nodes.wire.versions import fill, respond
from tests.support.nodes.garbage import collected

PRODUCE, FETCH, API_VERSIONS = 0, 1, 18
HIGH_WATER_BYTES = 64 << 10


class Wire(asyncio.Transport):
    """A peer that reads nothing: what is written stays, and flow control says so."""

    def __init__(self) -> None:
        super().__init__({"peername": ("peer", 1)})
        self.written = bytearray()
        self.reading = True
        self.closed = False
        self.protocol: ServerConnection | None = None

    def write(self, data: Any) -> None:
        self.written += data
        if len(self.written) > HIGH_WATER_BYTES and self.protocol is not None:
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def drain(self) -> bytes:
        """Let the peer read all."""
        written = bytes(self.written)
        self.written.clear()
        assert self.protocol is not None
        self.protocol.resume_writing()
        return written

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def connected(
    handlers: dict[int, Any], connections: Connections | None = None
) -> tuple[ServerConnection, Wire]:
    """A connection that serves `handlers` (by api key), one of `connections`."""
    if connections is None:
        connections = Connections(ConnectionLimits())
    dispatcher = Dispatcher({key: Api(0, 17, handler) for key, handler in handlers.items()})
    listener = Listener(
        name="L", dispatcher=dispatcher, connections=connections, max_frame_bytes=100 << 20
    )
    connection, wire = listener.connection(), Wire()
    wire.protocol = connection
    connection.connection_made(wire)
    return connection, wire


def request(api_key: int, version: int, number: int, **values: Any) -> bytes:
    """A frame."""
    return encode_request(fill(load_request_schema(api_key, version), **values), number, "c")


def in_loop(test: Callable[[], Awaitable[None]]) -> None:
    """Run `test` in a loop of its own."""

    async def run() -> None:
        await test()

    asyncio.run(run())


def megabyte(asked: Any, _: RequestContext) -> Any:
    """An answer of one megabyte."""
    part = {"partition_index": 0, "records": bytes(1 << 20)}
    return respond(asked, responses=[{"topic": "t", "partitions": [part]}])


def test_peer_that_does_not_read_holds_one_response() -> None:
    """64 fetches at once: one response is made, nothing more is read; each read admits one more."""

    async def test() -> None:
        connection, wire = connected({FETCH: megabyte})
        frames = b"".join(request(FETCH, 12, number) for number in range(64))
        connection.data_received(frames)
        for number in range(64):
            assert 1 << 20 < len(wire.written) < (1 << 20) + 200
            assert wire.reading == (number == 64)
            assert int.from_bytes(wire.drain()[4:8], "big") == number
        assert wire.written == b""
        assert wire.reading
        connection.connection_lost(None)

    in_loop(test)


def test_large_responses_are_made_one_at_a_time() -> None:
    """Fetches that wait: the second starts when the first is answered."""
    waiting: list[asyncio.Future[Any]] = []

    def wait(asked: Any, _: RequestContext) -> Any:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    async def test() -> None:
        connection, wire = connected({FETCH: wait})
        connection.data_received(request(FETCH, 12, 1) + request(FETCH, 12, 2))
        assert len(waiting) == 1
        assert connection.busy
        assert not wire.reading
        waiting[0].set_result(None)
        await asyncio.sleep(0)
        assert len(waiting) == 2
        connection.connection_lost(None)
        assert waiting[1].cancelled()

    in_loop(test)


def test_large_response_is_not_made_before_its_turn() -> None:
    """A fetch behind a produce that waits: its data could only be kept, not sent."""
    waiting: list[asyncio.Future[Any]] = []
    fetched: list[Any] = []

    def wait(asked: Any, _: RequestContext) -> Any:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    def fetch(asked: Any, context: RequestContext) -> Any:
        fetched.append(asked)
        return megabyte(asked, context)

    async def test() -> None:
        connection, wire = connected({PRODUCE: wait, FETCH: fetch})
        connection.data_received(request(PRODUCE, 9, 1) + request(FETCH, 12, 2))
        assert (len(waiting), fetched, wire.reading) == (1, [], False)
        waiting[0].set_result(None)
        await asyncio.sleep(0)
        assert len(fetched) == 1
        connection.connection_lost(None)

    in_loop(test)


def test_incomplete_frames_of_all_connections_are_bounded() -> None:
    """Above queued.max.request.bytes, the connection with the most bytes is closed."""

    async def test() -> None:
        connections = Connections(ConnectionLimits(max_request_bytes=1000))
        made = [connected({}, connections) for _ in range(5)]
        sizes = (100, 400, 300, 150, 100)
        for (connection, _), size in zip(made, sizes, strict=True):
            connection.data_received(struct.pack(">i", 50_000) + bytes(size - 4))
        assert connections.request_budget.total_bytes == sum(sizes) - 400
        await asyncio.sleep(0)
        assert [wire.closed for _, wire in made] == [False, True, False, False, False]
        for connection, _ in made:
            connection.connection_lost(None)
        assert connections.request_budget.total_bytes == 0

    in_loop(test)


def test_large_frame_is_read_in_one_piece_per_loop_turn() -> None:
    """Other connections are served in between."""

    async def test() -> None:
        connection, wire = connected({})
        connection.data_received(struct.pack(">i", 50 << 20) + bytes(TURN_BYTES - 4))
        assert wire.reading
        for _ in range(3):
            connection.data_received(bytes(1000))
            assert not wire.reading
            await asyncio.sleep(0)
            assert wire.reading
        connection.data_received(bytes(1000))
        connection.connection_lost(None)
        await asyncio.sleep(0)
        assert not wire.reading

    in_loop(test)


def test_requests_without_a_response_count_for_the_budget() -> None:
    """Until they are answered."""
    waiting: list[asyncio.Future[Any]] = []

    def wait(asked: Any, _: RequestContext) -> Any:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    async def test() -> None:
        connections = Connections(ConnectionLimits())
        connection, _ = connected({PRODUCE: wait}, connections)
        frame = request(PRODUCE, 9, 1)
        connection.data_received(frame + frame[:9])
        assert connections.request_budget.total_bytes == len(frame) - 4 + 9
        waiting[0].set_result(None)
        await asyncio.sleep(0)
        assert connections.request_budget.total_bytes == 9
        connection.connection_lost(None)
        assert connections.request_budget.total_bytes == 0

    in_loop(test)


def test_unread_responses_of_all_connections_are_bounded() -> None:
    """Above the node's bound, the connection that is behind for the longest is closed."""

    async def test() -> None:
        connections = Connections(ConnectionLimits(max_response_bytes=(5 << 20) // 2))
        made = [connected({FETCH: megabyte}, connections) for _ in range(4)]
        connection, wire = made[0]
        connection.data_received(request(FETCH, 12, 1))
        wire.drain()
        for connection, _ in (*made[1:], made[0]):
            connection.data_received(request(FETCH, 12, 2))
            await asyncio.sleep(0)
        assert [wire.closed for _, wire in made] == [False, True, True, False]
        assert 2 << 20 < connections.response_budget.total_bytes < (5 << 20) // 2
        for connection, _ in made:
            connection.connection_lost(None)
        assert connections.response_budget.total_bytes == 0

    in_loop(test)


def test_requests_in_flight_are_bounded_by_number_and_bytes() -> None:
    """So many small ones, or so many bytes of large ones, and a huge one alone."""
    waiting: list[asyncio.Future[Any]] = []

    def wait(asked: Any, _: RequestContext) -> Any:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    def produce(number: int, size: int) -> bytes:
        data = {"name": "t", "partition_data": [{"index": 0, "records": bytes(size)}]}
        return request(PRODUCE, 9, number, topic_data=[data])

    async def started(frames: bytes) -> int:
        waiting.clear()
        connection, wire = connected({PRODUCE: wait})
        connection.data_received(frames)
        count = len(waiting)
        assert not wire.reading
        for answer in waiting[:]:
            answer.set_result(None)
        await asyncio.sleep(0)
        assert len(waiting) > count
        connection.connection_lost(None)
        return count

    async def test() -> None:
        small = b"".join(produce(number, 10) for number in range(MAX_IN_FLIGHT + 5))
        assert await started(small) == MAX_IN_FLIGHT
        third = MAX_BYTES_IN_FLIGHT // 3
        assert await started(b"".join(produce(number, third) for number in range(5))) == 2
        huge = produce(0, 2 * MAX_BYTES_IN_FLIGHT) + produce(1, 10)
        assert await started(huge) == 1

    in_loop(test)


def test_responses_are_sent_in_the_order_of_the_requests() -> None:
    """Whichever is ready first, and also those that need no waiting."""
    waiting: list[asyncio.Future[Any]] = []

    def wait(asked: Any, _: RequestContext) -> Any:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    async def test() -> None:
        connection, wire = connected({PRODUCE: wait})
        asked = fill(load_request_schema(PRODUCE, 9))
        for frame in (request(PRODUCE, 9, 1), request(API_VERSIONS, 0, 2), request(PRODUCE, 9, 3)):
            connection.data_received(frame)
        waiting[1].set_result(respond(asked))
        await asyncio.sleep(0)
        assert wire.written == b""
        waiting[0].set_result(respond(asked))
        await asyncio.sleep(0)
        numbers, data = [], bytes(wire.written)
        while data:
            size = int.from_bytes(data[:4], "big")
            numbers.append(int.from_bytes(data[4:8], "big"))
            data = data[4 + size :]
        assert numbers == [1, 2, 3]
        connection.connection_lost(None)

    in_loop(test)


def test_sasl_on_a_listener_without_it_is_refused() -> None:
    """With ILLEGAL_SASL_STATE, as in Kafka, and the connection stays."""

    async def test() -> None:
        connection, wire = connected({})
        connection.data_received(request(17, 1, 1, mechanism="PLAIN"))
        answer = decode_response(bytes(wire.written)[4:], 17, 1)
        assert answer.error_code is ErrorCode.illegal_sasl_state
        assert not wire.closed
        connection.connection_lost(None)

    in_loop(test)


def test_failing_handler_closes_the_connection() -> None:
    """Whether it fails at once, later, or returns a response that cannot be encoded."""

    async def later() -> Any:
        raise KeyError("bug")

    def unwritable(asked: Any, _: RequestContext) -> Any:
        return respond(asked, throttle_time="soon")

    def at_once(asked: Any, _: RequestContext) -> Any:
        raise KeyError("bug")

    async def test() -> None:
        for handler in (at_once, lambda *_: later(), unwritable):
            connection, wire = connected({PRODUCE: handler})
            connection.data_received(request(PRODUCE, 9, 1) * 3)
            for _ in range(3):
                await asyncio.sleep(0)
            assert wire.closed
            assert wire.written == b""
            connection.connection_lost(None)

    in_loop(test)


def test_request_that_fails_later_leaves_no_reference_cycle() -> None:
    """A future refers to its error, this to its traceback, and this to the future's frame."""

    async def later(kind: type[Exception]) -> Any:
        await asyncio.sleep(0)
        raise kind("no")

    async def test() -> None:
        for kind in (Unanswerable, KeyError):
            connection, wire = connected({PRODUCE: lambda *_, kind=kind: later(kind)})
            with collected() as garbage:
                connection.data_received(request(PRODUCE, 9, 1))
                for _ in range(4):
                    await asyncio.sleep(0)
            assert wire.closed
            assert garbage == []
            connection.connection_lost(None)

    in_loop(test)
