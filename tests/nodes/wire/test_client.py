"""A channel leaves nothing open however it ends, and no request waits beyond its deadline."""

import asyncio
import contextlib
import gc
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode

from nodes.wire.client import MAX_TIMEOUTS, Channel, _Connection, _PendingRequest
from nodes.wire.codec import encode_response
from nodes.wire.errors import ConnectFailed, Disconnected, RequestTimedOut
from nodes.wire.security import ClientSecurity, Credentials

PATIENCE_S = 30.0


def test_channel_closed_during_the_login_disconnects() -> None:
    """The peer sees the end, although nothing else has the connection yet."""

    async def run() -> bytes:
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(4)
            asked.set_result(None)
            try:
                ended.set_result(await reader.read())
            except ConnectionResetError:
                ended.set_result(b"")
            finally:
                writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        security = ClientSecurity(credentials=Credentials(username="u", password="p"))
        port = server.sockets[0].getsockname()[1]
        channel = Channel("127.0.0.1", port, client_id="test", security=security)
        request = asyncio.create_task(channel.request(None))
        async with server, asyncio.timeout(PATIENCE_S):
            await asked
            channel.close()
            rest = await ended
            await asyncio.wait([request])
        assert request.cancelled()
        return rest

    asyncio.run(run())


Ask = Callable[[Channel], Awaitable[None]]


def readable(number: int) -> bytes:
    """The response to request `number`."""
    return encode_response(ApiVersionsResponse(error_code=ErrorCode.none, api_keys=()), number)


def unreadable(number: int) -> bytes:
    """A response to request `number` that ends after its first field."""
    return struct.pack(">iih", 6, number, 0)


def with_server(answers: int, ask: Ask, answer: Callable[[int], bytes] = readable) -> None:
    """Let `ask` have a channel to a server that answers so many requests, and no more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(answers):
            size = int.from_bytes(await reader.readexactly(4))
            frame = await reader.readexactly(size)
            writer.write(answer(int.from_bytes(frame[4:8])))
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()
        ended.set()

    ended = asyncio.Event()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        channel = Channel("127.0.0.1", port, client_id="test", request_timeout_s=PATIENCE_S)
        async with server, asyncio.timeout(PATIENCE_S):
            await ask(channel)
            channel.close()
            await ended.wait()

    asyncio.run(run())


def test_earliest_deadline_of_all_requests_counts() -> None:
    """A later request may have an earlier deadline; all requests fail then."""

    async def ask(channel: Channel) -> None:
        await channel.request(ApiVersionsRequest())
        patient = channel.begin(ApiVersionsRequest())
        hasty = channel.begin(ApiVersionsRequest(), timeout_s=0.05)
        with pytest.raises(RequestTimedOut, match=r"api key 18 within 0.05 s"):
            await hasty
        with pytest.raises(RequestTimedOut):
            await patient

    with_server(1, ask)


def test_deadline_counts_after_an_earlier_request_was_answered() -> None:
    """The timer is set again for later requests."""

    async def ask(channel: Channel) -> None:
        await channel.request(ApiVersionsRequest(), timeout_s=PATIENCE_S / 2)
        await channel.request(ApiVersionsRequest(), timeout_s=2.0)
        with pytest.raises(RequestTimedOut):
            await channel.request(ApiVersionsRequest(), timeout_s=2.1)

    with_server(2, ask)


class FakeLoop:
    """A clock that a test moves, and the timer that was set last."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.due_s = 0.0
        self.check: Callable[[], None] | None = None

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, check: Callable[[], None]) -> "FakeLoop":
        self.due_s, self.check = when_s, check
        return self

    def cancel(self) -> None:
        self.check = None

    def go_to(self, when_s: float) -> None:
        """Let the time pass; a timer that is due fires."""
        while self.check is not None and self.due_s <= when_s:
            self.now_s, check, self.check = self.due_s, self.check, None
            check()
        self.now_s = when_s


def slow_response(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeLoop, _Connection, Any]:
    """A connection that waits for a response since time 0, for 1 s; and its future."""
    loop = FakeLoop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    connection = _Connection("peer", None)
    response: asyncio.Future[Any] = asyncio.Future(loop=asyncio.new_event_loop())
    connection.expect(0, _PendingRequest(response, 1.0, 1.0, 18, 0))
    response.get_loop().close()
    return loop, connection, response


def test_response_that_arrives_slowly_is_not_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower would break off the response to each fetch, and ask for the same again."""
    loop, connection, response = slow_response(monkeypatch)
    frame = readable(0)
    for number in range(len(frame)):
        loop.go_to(0.9 * number)
        assert not response.done()
        connection.data_received(frame[number : number + 1])
    assert response.result().error_code is ErrorCode.none


def test_response_that_stops_arriving_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout counts from the last bytes."""
    loop, connection, response = slow_response(monkeypatch)
    loop.go_to(0.9)
    connection.data_received(readable(0)[:5])
    loop.go_to(1.8)
    assert not response.done()
    loop.go_to(1.95)
    assert isinstance(response.exception(), RequestTimedOut)


def test_response_without_an_end_is_overdue_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that sends a byte now and then holds a request for a bounded time."""
    loop, connection, response = slow_response(monkeypatch)
    connection.data_received((100_000).to_bytes(4))
    ticks = 2 * (MAX_TIMEOUTS - 1)
    for tick in range(1, ticks + 1):
        loop.go_to(0.5 * tick)
        assert not response.done()
        connection.data_received(b"x")
    loop.go_to(MAX_TIMEOUTS)
    assert isinstance(response.exception(), RequestTimedOut)


def test_response_that_cannot_be_read_fails_all_requests_in_flight() -> None:
    """Also the one that it answers, which no deadline would end any more."""

    async def ask(channel: Channel) -> None:
        requests = [channel.request(ApiVersionsRequest()) for _ in range(2)]
        errors = await asyncio.gather(*requests, return_exceptions=True)
        assert [type(each) for each in errors] == [Disconnected, Disconnected]
        assert "sent a response that cannot be read" in str(errors[0])

    with_server(1, ask, unreadable)


def test_begin_connects_first() -> None:
    """And fails as a request does."""

    async def ask(channel: Channel) -> None:
        answer: Any = await channel.begin(ApiVersionsRequest())
        assert answer.error_code is ErrorCode.none
        nobody = Channel("127.0.0.1", 1, client_id="test", request_timeout_s=PATIENCE_S)
        with pytest.raises(ConnectFailed):
            await nobody.begin(ApiVersionsRequest())

    with_server(1, ask)


def test_failed_connection_without_a_waiter_causes_no_warning() -> None:
    """The caller was cancelled; asyncio must not complain about the exception."""
    troubles: list[Any] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: troubles.append(context))
        nobody = Channel("127.0.0.1", 1, client_id="test", request_timeout_s=PATIENCE_S)
        request = asyncio.create_task(nobody.request(ApiVersionsRequest()))
        await asyncio.sleep(0)
        request.cancel()
        await asyncio.wait([request])
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others)

    asyncio.run(run())
    gc.collect()
    assert not troubles
