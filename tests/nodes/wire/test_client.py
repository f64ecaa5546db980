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

from nodes.wire.client import Channel
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
