"""A connection to one peer: pipelined requests, bounded waits, connection on demand.

One Channel is one TCP connection at a time. Responses come in the order of the requests. A timeout
or a broken connection fails every request in flight: nothing then shows which response belongs to
which request, or whether the peer acted. Nothing is retried here, because only the caller knows
whether a second attempt is safe.

A response that is arriving is not overdue, up to MAX_TIMEOUTS times the timeout. Otherwise a
follower with much to fetch over a slow link would break off each response, ask for the same again,
and never catch up.
"""

import asyncio
from math import inf
from typing import Any, NamedTuple, cast

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from nodes.wire.codec import correlation_id_of, decode_response, request_pieces
from nodes.wire.errors import (
    ChannelError,
    ConnectFailed,
    Disconnected,
    MalformedFrame,
    RequestTimedOut,
    TlsFailed,
    WireError,
)
from nodes.wire.frames import FrameBuffer, Piece
from nodes.wire.prompt import PromptFuture
from nodes.wire.sasl import MECHANISM, plain_token
from nodes.wire.security import PLAINTEXT_CLIENT, ClientSecurity, Credentials
from nodes.wire.tls import Tls
from nodes.wire.versions import schema_of

MAX_RESPONSE_BYTES = 256 << 20
MAX_IN_FLIGHT = 1000
MAX_TIMEOUTS = 20
"""How many timeouts a request may take while a response arrives."""


class _PendingRequest(NamedTuple):
    future: "asyncio.Future[Any]"
    deadline_s: float
    limit_s: float
    api_key: int
    version: int

    def overdue_s(self, arrived_s: float) -> float:
        """When the request fails, if the last bytes of an incomplete response came then."""
        latest_s = self.deadline_s + (MAX_TIMEOUTS - 1) * self.limit_s
        return max(self.deadline_s, min(arrived_s + self.limit_s, latest_s))


class _Connection(asyncio.Protocol):
    """The protocol of the transport: splits frames and completes the requests that wait.

    One timer serves all requests, because most complete long before their deadlines.
    """

    def __init__(self, peer: str, tls: Tls | None) -> None:
        self.peer = peer
        self._tls = tls
        self.loop = asyncio.get_running_loop()
        """Kept, because a lookup of the running loop is a system call (in Python 3.11)."""
        self.transport: asyncio.Transport | None = None
        self.waiting: dict[int, _PendingRequest] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = inf
        self._frames = FrameBuffer(MAX_RESPONSE_BYTES)
        self._arrived_s = -inf
        """When the last bytes of an incomplete response came."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        if self._tls is not None:
            self.transport.write(self._tls.start())

    def send(self, pieces: list[Piece]) -> None:
        """Write a request, encrypted if the connection is."""
        assert self.transport is not None
        if self._tls is None:
            self.transport.writelines(pieces)
        else:
            self.transport.write(self._tls.send(pieces))

    def expect(self, number: int, waiting: _PendingRequest) -> None:
        """Wait for the response to the request with this correlation id."""
        self.waiting[number] = waiting
        if waiting.deadline_s < self._timer_s:
            self._set_timer(waiting.deadline_s)

    def _set_timer(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = when_s
        self._timer = self.loop.call_at(when_s, self._check_deadlines)

    def _check_deadlines(self) -> None:
        """Fail if a response is overdue; else set the timer for the next deadline."""
        self._timer, self._timer_s = None, inf
        if not self.waiting:
            return
        overdue_s, _, first = min(
            (waiting.overdue_s(self._arrived_s), number, waiting)
            for number, waiting in self.waiting.items()
        )
        if overdue_s <= self.loop.time():
            what = f"did not respond to api key {first.api_key} within {first.limit_s:g} s"
            self.fail(RequestTimedOut(f"{self.peer} {what}"))
        else:
            self._set_timer(overdue_s)

    def data_received(self, data: bytes) -> None:
        try:
            if self._tls is not None:
                data = self._decrypted(self._tls, data)
            for frame in self._frames.feed(data):
                self._complete(frame)
            if self._frames.held_bytes:
                self._arrived_s = self.loop.time()
        except TlsFailed as error:
            self.fail(Disconnected(f"{self.peer}: {error}"))
        except MalformedFrame as error:
            self.fail(Disconnected(f"{self.peer} sent a response that cannot be read: {error}"))

    def _decrypted(self, tls: Tls, data: bytes) -> bytes:
        try:
            return tls.receive(data)
        finally:
            if self.transport is not None:
                self.transport.write(tls.outgoing())
                if tls.peer_closed:
                    self.transport.close()

    def _complete(self, frame: bytes) -> None:
        number = correlation_id_of(frame)
        waiting = self.waiting.get(number)
        if waiting is None:
            raise MalformedFrame("a response to no request")
        if not waiting.future.done():
            waiting.future.set_result(decode_response(frame, waiting.api_key, waiting.version))
        # Only now: a request whose response cannot be read fails with the others in flight.
        del self.waiting[number]

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(Disconnected(f"{self.peer} closed the connection"))

    def fail(self, error: ChannelError) -> None:
        """Close the connection, and fail all requests in flight with `error`."""
        if self.transport is not None:
            self.transport.abort()
            self.transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_s = None, inf
        for waiting in self.waiting.values():
            if not waiting.future.done():
                waiting.future.set_exception(error)
        self.waiting.clear()


def _retrieve_exception(connecting: "asyncio.Task[_Connection]") -> None:
    """Avoid asyncio's warning if nobody waits any more for a connection that failed."""
    if not connecting.cancelled():
        connecting.exception()


class Channel:
    """Requests to `host:port`.

    `request_timeout_s` bounds each request, connecting included, unless it has its own timeout.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        request_timeout_s: float = 30.0,
        security: ClientSecurity = PLAINTEXT_CLIENT,
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self.request_timeout_s = request_timeout_s
        self._security = security
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[_Connection] | None = None
        self._next_id = 0

    @property
    def peer(self) -> str:
        """`host:port`, for messages."""
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

    def begin(self, entity: Any, *, timeout_s: float | None = None) -> "asyncio.Future[Any]":
        """As `request`, but return a future. If there is a connection, it is sent at once.

        Raises ConnectFailed and Disconnected, as the future may.
        """
        connection = self._connection
        if connection is None or connection.transport is None:
            request = self.request(entity, timeout_s=timeout_s)
            return asyncio.get_running_loop().create_task(request)
        limit = self.request_timeout_s if timeout_s is None else timeout_s
        return self._send(connection, entity, limit)

    def _send(self, connection: _Connection, entity: Any, limit: float) -> "asyncio.Future[Any]":
        if len(connection.waiting) >= MAX_IN_FLIGHT:
            raise ConnectFailed(f"{self.peer}: {MAX_IN_FLIGHT} requests are in flight already")
        if connection.transport is None:
            raise Disconnected(f"{self.peer} closed the connection at once")
        loop = connection.loop
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        frame = request_pieces(entity, self._next_id, self.client_id)
        future = PromptFuture(loop=loop)
        cls = schema_of(entity)
        api_key, version = int(cls.__api_key__), int(cls.__version__)
        deadline_s = loop.time() + limit
        connection.expect(
            self._next_id, _PendingRequest(future, deadline_s, limit, api_key, version)
        )
        connection.send(frame)
        return future

    async def _connect(self, limit: float) -> _Connection:
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.get_running_loop().create_task(self._open(limit))
            self._connecting.add_done_callback(_retrieve_exception)
        # Shielded: a caller that is cancelled must not end the attempt that others wait for.
        return await asyncio.shield(self._connecting)

    async def _open(self, limit: float) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            connection = self._new_connection()
        except ValueError as error:  # the host is no name that a certificate can have
            raise ConnectFailed(f"cannot connect to {self.peer}: {error}") from error
        try:
            async with asyncio.timeout(limit):
                await loop.create_connection(lambda: connection, self.host, self.port)
                if self._security.credentials is not None:
                    await self._log_in(connection, self._security.credentials, limit)
        except (OSError, ValueError, TimeoutError, WireError) as error:
            # Also after a failed login no request was sent yet. ValueError: another node may have
            # sent any text as the peer's host, and not every text can be a host name.
            why = str(error) or f"no response within {limit:g} s"
            failure = ConnectFailed(f"cannot connect to {self.peer}: {why}")
            connection.fail(failure)
            raise failure from error
        except asyncio.CancelledError:  # closed during the login: nothing else has the connection
            connection.fail(Disconnected(f"the connection to {self.peer} was closed here"))
            raise
        self._connection = connection
        return connection

    def _new_connection(self) -> _Connection:
        context = self._security.tls
        tls = Tls(context, server_side=False, host=self.host) if context is not None else None
        return _Connection(self.peer, tls)

    async def _log_in(self, connection: _Connection, user: Credentials, limit: float) -> None:
        """Log in with SASL/PLAIN. Raises ConnectFailed if the peer refuses."""
        response = await self._send(connection, SaslHandshakeRequest(mechanism=MECHANISM), limit)
        if response.error_code is ErrorCode.none:
            token = plain_token(user.username, user.password)
            request = SaslAuthenticateRequest(auth_bytes=token)
            response = await self._send(connection, request, limit)
        if response.error_code is not ErrorCode.none:
            why = getattr(response, "error_message", None) or response.error_code.name
            raise ConnectFailed(f"user {user.username!r} was refused: {why}")

    def close(self) -> None:
        """Close the connection; requests in flight fail with Disconnected. Idempotent."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.fail(Disconnected(f"the connection to {self.peer} was closed here"))
            self._connection = None
