"""A connection to one peer: pipelined requests, bounded waits, lazy (re)connection.

One Channel is one TCP connection at a time. Requests are answered in the order in which they were
sent. A timeout or a broken connection fails every request in flight: after it nobody can know which
answer belongs to which request, nor whether the peer acted. Nothing is retried here; who asks knows
whether asking twice is safe.
"""

import asyncio
from typing import Any, cast

from nodes.wire.codec import correlation_id_of, decode_response, request_pieces
from nodes.wire.errors import (
    ChannelError,
    ConnectFailed,
    Disconnected,
    MalformedFrame,
    RequestTimedOut,
)
from nodes.wire.frames import FrameBuffer
from nodes.wire.versions import schema_of

MAX_RESPONSE_BYTES = 256 << 20
MAX_IN_FLIGHT = 1000


class _Waiting:
    __slots__ = ("api_key", "future", "timer", "version")

    def __init__(
        self,
        future: "asyncio.Future[Any]",
        timer: asyncio.TimerHandle,
        api_key: int,
        version: int,
    ) -> None:
        self.future = future
        self.timer = timer
        self.api_key = api_key
        self.version = version


class _Connection(asyncio.Protocol):
    """The transport's side: splits frames and hands answers to those who wait for them."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.transport: asyncio.Transport | None = None
        self.waiting: dict[int, _Waiting] = {}
        self._frames = FrameBuffer(MAX_RESPONSE_BYTES)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._answer(frame)
        except MalformedFrame as error:
            self.fail(Disconnected(f"{self.peer} sent a response that cannot be read: {error}"))

    def _answer(self, frame: bytes) -> None:
        waiting = self.waiting.pop(correlation_id_of(frame), None)
        if waiting is None:
            raise MalformedFrame("an answer to no request")
        waiting.timer.cancel()
        if not waiting.future.done():
            waiting.future.set_result(decode_response(frame, waiting.api_key, waiting.version))

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(Disconnected(f"{self.peer} closed the connection"))

    def fail(self, error: ChannelError) -> None:
        """Close, and fail everything in flight with `error`."""
        if self.transport is not None:
            self.transport.abort()
            self.transport = None
        for waiting in self.waiting.values():
            waiting.timer.cancel()
            if not waiting.future.done():
                waiting.future.set_exception(error)
        self.waiting.clear()


class Channel:
    """Requests to `host:port`.

    `request_timeout_s` bounds each request, connecting included, unless the request names its own.
    """

    def __init__(
        self, host: str, port: int, *, client_id: str, request_timeout_s: float = 30.0
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self.request_timeout_s = request_timeout_s
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[_Connection] | None = None
        self._next_id = 0

    @property
    def peer(self) -> str:
        """host:port, for messages."""
        return f"{self.host}:{self.port}"

    async def request(self, entity: Any, *, timeout_s: float | None = None) -> Any:
        """Send `entity` (a kio request payload, or a Draft of one), return the response entity.

        Raises ConnectFailed (surely not sent), RequestTimedOut or Disconnected (may have happened).
        """
        limit = self.request_timeout_s if timeout_s is None else timeout_s
        connection = self._connection
        if connection is None or connection.transport is None:
            connection = await self._connect(limit)
        return await self._send(connection, entity, limit)

    def _send(self, connection: _Connection, entity: Any, limit: float) -> "asyncio.Future[Any]":
        if len(connection.waiting) >= MAX_IN_FLIGHT:
            raise ConnectFailed(f"{self.peer}: {MAX_IN_FLIGHT} requests are in flight already")
        transport = connection.transport
        if transport is None:
            raise Disconnected(f"{self.peer} closed the connection at once")
        loop = asyncio.get_running_loop()
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        frame = request_pieces(entity, self._next_id, self.client_id)
        future: asyncio.Future[Any] = loop.create_future()
        cls = schema_of(entity)
        api_key, version = int(cls.__api_key__), int(cls.__version__)
        what = f"{self.peer} did not answer api key {api_key} within {limit:g} s"
        timer = loop.call_later(limit, connection.fail, RequestTimedOut(what))
        connection.waiting[self._next_id] = _Waiting(future, timer, api_key, version)
        transport.writelines(frame)
        return future

    async def _connect(self, limit: float) -> _Connection:
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.get_running_loop().create_task(self._open(limit))
        # Shielded: one impatient caller must not break the attempt that others wait for.
        return await asyncio.shield(self._connecting)

    async def _open(self, limit: float) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limit):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self.peer), self.host, self.port
                )
        except (OSError, TimeoutError) as error:
            raise ConnectFailed(f"cannot connect to {self.peer}: {error}") from error
        self._connection = connection
        return connection

    def close(self) -> None:
        """Close the connection; requests in flight fail with Disconnected. Idempotent."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.fail(Disconnected(f"the connection to {self.peer} was closed here"))
            self._connection = None
