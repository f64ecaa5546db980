"""The server's side of a connection: requests in, responses out in the same order.

A connection may have several requests in flight, as Kafka's clients do. Each request is passed to
its handler when it arrives. The responses are sent in the order of the requests, whichever is ready
first.

The cost of one peer is bounded: frames by `max_frame_bytes`, requests in flight by MAX_IN_FLIGHT
and MAX_BYTES_IN_FLIGHT, unsent responses by the transport's flow control. A request whose response
can be large starts only when the requests before it are answered. At any of these bounds no request
is started or read until some are answered. The cost of all peers together is bounded by the node's
two budgets (`nodes.wire.budget`): a peer that sends incomplete large frames, or does not read,
loses its connection. So does a peer that sends garbage, and it costs one log line.

A listener may require TLS (`nodes.wire.tls`) and SASL (`nodes.wire.sasl`).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from kio.schema.errors import ErrorCode

from nodes.wire import sasl
from nodes.wire.codec import decode_request, response_pieces
from nodes.wire.connections import Connections
from nodes.wire.errors import MalformedFrame, TlsFailed, Unanswerable, UnsupportedVersion
from nodes.wire.frames import FrameBuffer, Piece, RequestHead, read_request_head
from nodes.wire.prompt import when_completed
from nodes.wire.sasl import SaslServer
from nodes.wire.security import PLAINTEXT_SERVER, ServerSecurity
from nodes.wire.tls import Tls
from nodes.wire.versions import Draft, respond, response_class

PRODUCE = 0
FETCH = 1
METADATA = 3
API_VERSIONS = 18
FETCH_SNAPSHOT = 59
DESCRIBE_TOPIC_PARTITIONS = 75
MAX_IN_FLIGHT = 64
MAX_BYTES_IN_FLIGHT = 16 << 20
"""Of the frames of one connection; a single larger frame is served alone."""
TURN_BYTES = 1 << 20
"""A larger frame is read in pieces, one in each turn of the event loop. Otherwise the transport
would read megabytes at once, and all other connections would wait."""

_LARGE_RESPONSES = frozenset(
    key.to_bytes(2, "big") for key in (FETCH, METADATA, FETCH_SNAPSHOT, DESCRIBE_TOPIC_PARTITIONS)
)
"""The first bytes of requests whose responses may be megabytes: such a response is not made before
it can be sent."""

ANONYMOUS = "User:ANONYMOUS"

ADVERTISED_OLDEST: Mapping[int, int] = {PRODUCE: 0}
"""Versions that are advertised but not served, on purpose: librdkafka 2.0, for one, compresses
nothing unless Produce v0 is advertised, although it never sends it. Kafka 4 does the same
(KAFKA-18659)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The sender of a request: its host, the listener that it uses, its client id.

    `principal` is its authenticated name in Kafka's form, from its password or its certificate.
    """

    listener: str
    peer_host: str
    client_id: str | None
    principal: str = ANONYMOUS


Features = Callable[[int], Mapping[str, Any]]
"""Takes a version of ApiVersions; returns the feature fields of the response."""


class ExclusiveResponse(NamedTuple):
    """The future response of a request that is handled in slices.

    The next request of the connection does not start before it is done, so that the effects of
    requests keep their order.
    """

    response: Awaitable[Any]


Handler = Callable[[Any, RequestContext], "Awaitable[Any] | Any"]
"""Takes a request entity; returns the response, an awaitable of it, an ExclusiveResponse, or None
for no response. It raises Unanswerable to close the connection; any other exception is a bug. An
awaitable is cancelled when the connection is lost."""


class Api(NamedTuple):
    """One served api: the accepted versions (both ends included) and the handler."""

    oldest: int
    newest: int
    handler: Handler


class Dispatcher:
    """The table of the served apis of one listener; it also answers ApiVersions."""

    def __init__(self, apis: Mapping[int, Api], features: Features = lambda version: {}) -> None:
        self._features = features
        self._apis = {
            **apis,
            API_VERSIONS: Api(0, 4, self._api_versions),
            sasl.HANDSHAKE: Api(*sasl.HANDSHAKE_VERSIONS, _no_sasl_now),
            sasl.AUTHENTICATE: Api(*sasl.AUTHENTICATE_VERSIONS, _no_sasl_now),
        }

    def find(self, head: RequestHead) -> Handler:
        """Return the handler for a request. Raises UnsupportedVersion."""
        api = self._apis.get(head.api_key)
        if api is None or not api.oldest <= head.api_version <= api.newest:
            raise UnsupportedVersion(f"api key {head.api_key} v{head.api_version} is not served")
        return api.handler

    def _api_versions(self, request: Any, context: RequestContext) -> Any:
        return self.api_versions_response(request.__version__, ErrorCode.none)

    def api_versions_response(self, version: int, error: ErrorCode) -> Any:
        """The ApiVersions response; v0 with an error tells a newer client to ask in v0."""
        keys = [
            {
                "api_key": key,
                "min_version": ADVERTISED_OLDEST.get(key, api.oldest),
                "max_version": api.newest,
            }
            for key, api in sorted(self._apis.items())
        ]
        values = {"error_code": error, "api_keys": keys, **self._features(version)}
        return Draft(response_class(API_VERSIONS, version), values)


def _no_sasl_now(request: Any, context: RequestContext) -> Any:
    """Refuse SASL on a listener without it, or after authentication."""
    return respond(request, error_code=ErrorCode.illegal_sasl_state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """The settings and parts that the connections of one listener share.

    max.connections does not apply to a listener between nodes (`internal`).
    """

    name: str
    dispatcher: Dispatcher
    connections: Connections
    max_frame_bytes: int
    security: ServerSecurity = PLAINTEXT_SERVER
    internal: bool = False

    def connection(self) -> "ServerConnection":
        """Return the protocol of a new connection, for `loop.create_server`."""
        return ServerConnection(self)


class _InFlight(NamedTuple):
    """A request whose response is not sent yet."""

    head: RequestHead
    response: "asyncio.Future[Any]"
    frame_bytes: int


class ServerConnection(asyncio.Protocol):
    """One accepted connection."""

    def __init__(self, listener: Listener) -> None:
        self.peer_host = "?"
        self.last_active_s = 0.0
        self._listener = listener
        self._loop: asyncio.AbstractEventLoop
        """Set when the connection is made: Python 3.11 asks the kernel for the process id at each
        lookup of the running loop."""
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._writable = True
        self._tls: Tls | None = None
        self._sasl: SaslServer | None = None
        self._context = RequestContext(listener=listener.name, peer_host="?", client_id=None)
        self._frames = FrameBuffer(listener.max_frame_bytes)
        self._backlog: deque[bytes] = deque()
        self._in_flight: deque[_InFlight] = deque()
        self._backlog_bytes = 0
        self._bytes_in_flight = 0
        self._exclusive: asyncio.Future[Any] | None = None

    # -- the transport's side ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        peer = transport.get_extra_info("peername")
        self.peer_host = str(peer[0]) if peer else "?"
        self._touch()
        security = self._listener.security
        refused = self._listener.connections.admit(self, exempt=self._listener.internal)
        if refused:
            self._refuse(refused)
            return
        if security.tls is not None:
            self._tls = Tls(security.tls, server_side=True)
        if security.users is not None:
            self._sasl = SaslServer(security.users)
            self._frames.max_frame_bytes = sasl.MAX_FRAME_BYTES
        self._set_context(None, ANONYMOUS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_requests()
        self._listener.connections.forget(self)
        self._hold_responses(0)
        for pending in self._in_flight:
            pending.response.cancel()
        self._in_flight.clear()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._touch()
        try:
            if self._tls is not None:
                data = self._decrypted(self._tls, data)
            for frame in self._frames.feed(data):
                self._backlog.append(frame)
                self._backlog_bytes += len(frame)
        except MalformedFrame as error:
            self._refuse(error)
            return
        self._start_requests()
        if self._frames.held_bytes > TURN_BYTES and self._transport is not None:
            self._transport.pause_reading()
            self._loop.call_soon(self._apply_back_pressure)

    def pause_writing(self) -> None:
        self._writable = False
        self._hold_responses()
        self._apply_back_pressure()

    def resume_writing(self) -> None:
        self._touch()
        self._writable = True
        self._hold_responses(0)
        self._start_requests()

    # -- for Connections and ByteBudget --------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether the peer waits for a response."""
        return bool(self._in_flight)

    def close(self) -> None:
        """Close the connection at once, and drop the requests that are not started."""
        # Now, and not in `connection_lost` in a later turn: what follows garbage is garbage.
        self._end_requests()
        if self._transport is not None:
            self._transport.abort()

    def shed(self, reason: str) -> None:
        """Close the connection in the next turn of the loop: it may be in the middle of a call."""
        self._loop.call_soon(self._shed, reason)

    def _shed(self, reason: str) -> None:
        if not self._ended:
            self._refuse(reason)

    def _end_requests(self) -> None:
        """Start no more requests, and drop those that are not started."""
        self._ended = True
        self._backlog.clear()
        self._backlog_bytes = 0
        self._frames.discard()
        self._listener.connections.request_budget.hold(self, 0)

    def _hold_responses(self, size: int | None = None) -> None:
        """Report the bytes of unsent responses: `size`, or else what the transport has."""
        if size is None:
            size = 0 if self._transport is None else self._transport.get_write_buffer_size()
        self._listener.connections.response_budget.hold(self, size)

    # -- requests ------------------------------------------------------------------------------

    def _start_requests(self) -> None:
        while self._backlog and self._may_start(self._backlog[0]):
            frame = self._backlog.popleft()
            self._backlog_bytes -= len(frame)
            self._start(frame)
        if not self._ended:
            held = self._frames.held_bytes + self._backlog_bytes + self._bytes_in_flight
            self._listener.connections.request_budget.hold(self, held)
        self._apply_back_pressure()

    def _may_start(self, frame: bytes) -> bool:
        """Whether a request may start beside those of the connection that are in flight."""
        if self._ended or not self._writable:
            return False
        if not self._in_flight:
            return True
        exclusive = self._exclusive is not None and not self._exclusive.done()
        if frame[:2] in _LARGE_RESPONSES or exclusive:
            return False
        return (
            len(self._in_flight) < MAX_IN_FLIGHT
            and self._bytes_in_flight + len(frame) <= MAX_BYTES_IN_FLIGHT
        )

    def _apply_back_pressure(self) -> None:
        if self._ended or self._transport is None or self._transport.is_closing():
            return
        if self._backlog or not self._writable:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _start(self, frame: bytes) -> None:
        """Pass one request to its handler; send the response now, or when it is its turn."""
        try:
            if self._sasl is not None and not self._sasl.done:
                self._authenticate(self._sasl, frame)
            else:
                self._serve(frame, read_request_head(frame))
        except (MalformedFrame, UnsupportedVersion, Unanswerable) as error:
            self._refuse(error)

    def _serve(self, frame: bytes, head: RequestHead) -> None:
        try:
            handler = self._listener.dispatcher.find(head)
        except UnsupportedVersion:
            if head.api_key != API_VERSIONS or self._in_flight:
                raise
            response = self._listener.dispatcher.api_versions_response(
                0, ErrorCode.unsupported_version
            )
            self._send(response_pieces(response, head.correlation_id))
            return
        request = decode_request(frame, head)
        if head.client_id != self._context.client_id:
            self._set_context(head.client_id, self._context.principal)
        try:
            response = handler(request.entity, self._context)
            if isinstance(response, ExclusiveResponse):
                self._exclusive = response = asyncio.ensure_future(response.response)
            if isinstance(response, asyncio.Future):
                self._await(head, response, frame)
            elif isinstance(response, Awaitable):
                self._await(head, asyncio.ensure_future(response), frame)
            elif self._in_flight:
                done = self._loop.create_future()
                done.set_result(response)
                self._await(head, done, frame)
            elif response is not None:
                self._send(response_pieces(response, head.correlation_id))
        except Unanswerable:
            raise
        except Exception as error:
            self._handler_failed(head, error)

    def _await(self, head: RequestHead, response: "asyncio.Future[Any]", frame: bytes) -> None:
        self._in_flight.append(_InFlight(head, response, len(frame)))
        self._bytes_in_flight += len(frame)
        when_completed(response, self._send_ready)

    def _send_ready(self, done: "asyncio.Future[Any]") -> None:
        if not done.cancelled():
            done.exception()  # avoids asyncio's warning if the connection has ended
        in_flight = self._in_flight
        while in_flight and in_flight[0].response.done():
            head, response, size = in_flight.popleft()
            self._bytes_in_flight -= size
            if not self._ended and not response.cancelled():
                self._send_response(head, response)
        self._start_requests()

    def _send_response(self, head: RequestHead, response: "asyncio.Future[Any]") -> None:
        # The error is read, not raised: its traceback would have this frame, which has the future,
        # which has the error, and this cycle would keep the request in memory.
        error = response.exception()
        if isinstance(error, Unanswerable):
            self._refuse(error)
        elif error is not None:
            self._handler_failed(head, error)
        elif (message := response.result()) is not None:
            try:
                self._send(response_pieces(message, head.correlation_id))
            except Exception as unwritable:
                self._handler_failed(head, unwritable)

    def _authenticate(self, server: SaslServer, frame: bytes) -> None:
        if server.wants_bare_token:
            response = server.bare_token(frame)
        else:
            head = read_request_head(frame)
            if head.api_key == API_VERSIONS:
                self._serve(frame, head)
                return
            response = server.request(frame, head)
        self._send(response.pieces)
        if response.failure:
            self._end(response.failure)
        elif server.user is not None:
            self._frames.max_frame_bytes = self._listener.max_frame_bytes
            self._set_context(self._context.client_id, f"User:{server.user}")

    # -- bytes ---------------------------------------------------------------------------------

    def _decrypted(self, tls: Tls, data: bytes) -> bytes:
        early = not tls.established
        try:
            return tls.receive(data)
        finally:
            reply = tls.outgoing()  # of the handshake, or an alert with the error
            if reply and self._transport is not None:
                self._transport.write(reply)
            if tls.peer_closed and self._transport is not None:
                self._transport.close()
            if early and tls.established:
                name = tls.peer_name()
                self._set_context(None, f"User:{name}" if name else ANONYMOUS)

    def _send(self, pieces: list[Piece]) -> None:
        if self._ended or self._transport is None:
            return
        if self._tls is not None:
            self._transport.write(self._tls.send(pieces))
        elif len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)
        if not self._writable:
            self._hold_responses()

    def _touch(self) -> None:
        self.last_active_s = self._loop.time()

    def _set_context(self, client_id: str | None, principal: str) -> None:
        self._context = RequestContext(
            listener=self._listener.name,
            peer_host=self.peer_host,
            client_id=client_id,
            principal=principal,
        )

    # -- closing -------------------------------------------------------------------------------

    def _refuse(self, error: object) -> None:
        """Close a connection that misbehaves; after a TLS failure the alert is sent first."""
        if isinstance(error, TlsFailed):
            self._end(error)
            return
        self._listener.connections.warn("closing the connection of %s: %s", self.peer_host, error)
        self.close()

    def _end(self, reason: object) -> None:
        """Close the connection when everything is sent."""
        self._listener.connections.warn("closing the connection of %s: %s", self.peer_host, reason)
        self._end_requests()
        if self._transport is not None:
            self._transport.close()

    def _handler_failed(self, head: RequestHead, error: BaseException) -> None:
        self._listener.connections.fail(
            error, "api key %d v%d from %s failed", head.api_key, head.api_version, self.peer_host
        )
        self.close()
