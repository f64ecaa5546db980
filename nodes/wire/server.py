"""The serving side of a connection: requests in, answers out in the same order.

Every connection may have several requests in flight, as Kafka's clients do: each is handed to its
handler as it arrives, and the answers leave in the order of the requests, whichever is ready first.
What a peer can cost is bounded: frames by `max_frame_bytes`, requests in flight by MAX_IN_FLIGHT
and MAX_BYTES_IN_FLIGHT, unsent answers by the transport's flow control, and a request whose answer
can be large is started when all before it are answered. Beyond any of these nothing is started, nor
read, until some are answered. What all peers together cost is bounded by the node's two budgets
(`nodes.wire.budget`): who sends halves of large frames, or does not read, loses its connection. A
peer that sends garbage does, too, and costs one log line.

A listener may want TLS (`nodes.wire.tls`), and SASL before anything else (`nodes.wire.sasl`).
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
"""Of the frames of one connection; a single larger one is served alone."""
TURN_BYTES = 1 << 20
"""Of a larger frame, a piece is read in each turn of the loop: a transport would read on while
there is something, megabytes, and everybody else would wait."""

_LARGE_ANSWERS = frozenset(
    key.to_bytes(2, "big") for key in (FETCH, METADATA, FETCH_SNAPSHOT, DESCRIBE_TOPIC_PARTITIONS)
)
"""How the frames begin whose answers may be megabytes: none is made before it can be sent."""

ANONYMOUS = "User:ANONYMOUS"

ADVERTISED_OLDEST: Mapping[int, int] = {PRODUCE: 0}
"""Older than what is served, on purpose: librdkafka 2.0, for one, compresses nothing unless Produce
v0 is advertised, although it never sends it. Kafka 4 says the same untruth (KAFKA-18659)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Who asks: the connection's peer, the listener it came by, the client's name for itself.

    `principal` is who it has proved to be, in Kafka's form: by its password or its certificate.
    """

    listener: str
    peer_host: str
    client_id: str | None
    principal: str = ANONYMOUS


Features = Callable[[int], Mapping[str, Any]]
"""Makes of a version of ApiVersions the fields of its response that tell of features."""


class ExclusiveResponse(NamedTuple):
    """An answer to come of a request that is worked on in slices: the next one of its connection
    is not begun before it is done, so that their effects keep their order."""

    answer: Awaitable[Any]


Handler = Callable[[Any, RequestContext], "Awaitable[Any] | Any"]
"""Takes a request entity; returns the response, an awaitable of it, ExclusiveResponse, or None for no answer.
Raises Unanswerable to have the connection closed; anything else it raises is a bug of ours. An
awaitable is cancelled when the connection is lost."""


class Api(NamedTuple):
    """One served api: the versions accepted (both ends included) and its handler."""

    oldest: int
    newest: int
    handler: Handler


class Dispatcher:
    """The table of served apis of one listener; ApiVersions is answered from it."""

    def __init__(self, apis: Mapping[int, Api], features: Features = lambda version: {}) -> None:
        self._features = features
        self._apis = {
            **apis,
            API_VERSIONS: Api(0, 4, self._api_versions),
            sasl.HANDSHAKE: Api(*sasl.HANDSHAKE_VERSIONS, _no_sasl_now),
            sasl.AUTHENTICATE: Api(*sasl.AUTHENTICATE_VERSIONS, _no_sasl_now),
        }

    def find(self, head: RequestHead) -> Handler:
        """The handler for a request. Raises UnsupportedVersion."""
        api = self._apis.get(head.api_key)
        if api is None or not api.oldest <= head.api_version <= api.newest:
            raise UnsupportedVersion(f"api key {head.api_key} v{head.api_version} is not served")
        return api.handler

    def _api_versions(self, request: Any, context: RequestContext) -> Any:
        return self.api_versions_response(request.__version__, ErrorCode.none)

    def api_versions_response(self, version: int, error: ErrorCode) -> Any:
        """The ApiVersions answer; v0 with an error tells a newer client to ask for less."""
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
    """SASL where there is none, or when it is over already."""
    return respond(request, error_code=ErrorCode.illegal_sasl_state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """What the connections of one listener share.

    Of a listener that nodes use among each other (`internal`), max.connections does not count.
    """

    name: str
    dispatcher: Dispatcher
    connections: Connections
    max_frame_bytes: int
    security: ServerSecurity = PLAINTEXT_SERVER
    internal: bool = False

    def connection(self) -> "ServerConnection":
        """The protocol for a new connection: what `loop.create_server` wants."""
        return ServerConnection(self)


class _InFlight(NamedTuple):
    """A request whose answer is not sent yet."""

    head: RequestHead
    answer: "asyncio.Future[Any]"
    frame_bytes: int


class ServerConnection(asyncio.Protocol):
    """One accepted connection."""

    def __init__(self, listener: Listener) -> None:
        self.peer_host = "?"
        self.last_active_s = 0.0
        self._listener = listener
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
        self._alone: asyncio.Future[Any] | None = None

    # -- the transport's side ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
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
        self._let_go()
        self._listener.connections.forget(self)
        self._hold_answers(0)
        for pending in self._in_flight:
            pending.answer.cancel()
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
        self._work_off()
        if self._frames.held_bytes > TURN_BYTES and self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._apply_back_pressure)

    def pause_writing(self) -> None:
        self._writable = False
        self._hold_answers()
        self._apply_back_pressure()

    def resume_writing(self) -> None:
        self._touch()
        self._writable = True
        self._hold_answers(0)
        self._work_off()

    # -- the registry's side -------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether it waits for an answer of ours."""
        return bool(self._in_flight)

    def close(self) -> None:
        """Drop the connection at once, and what it sent and was not read yet."""
        # Now, not when the loop gets round to `connection_lost`: what follows garbage is garbage.
        self._let_go()
        if self._transport is not None:
            self._transport.abort()

    def shed(self, reason: str) -> None:
        """Drop the connection, as soon as whoever is at work on it has finished."""
        asyncio.get_running_loop().call_soon(self._shed, reason)

    def _shed(self, reason: str) -> None:
        if not self._ended:
            self._refuse(reason)

    def _let_go(self) -> None:
        """Nothing more is started."""
        self._ended = True
        self._backlog.clear()
        self._backlog_bytes = 0
        self._frames.discard()
        self._listener.connections.requests.hold(self, 0)

    def _hold_answers(self, size: int | None = None) -> None:
        """So many bytes of answers are unsent: what the transport says, unless it is given."""
        if size is None:
            size = 0 if self._transport is None else self._transport.get_write_buffer_size()
        self._listener.connections.answers.hold(self, size)

    # -- requests ------------------------------------------------------------------------------

    def _work_off(self) -> None:
        while self._backlog and self._may_start(self._backlog[0]):
            frame = self._backlog.popleft()
            self._backlog_bytes -= len(frame)
            self._start(frame)
        if not self._ended:
            held = self._frames.held_bytes + self._backlog_bytes + self._bytes_in_flight
            self._listener.connections.requests.hold(self, held)
        self._apply_back_pressure()

    def _may_start(self, frame: bytes) -> bool:
        """Whether a request may be started, by what others of the connection still occupy."""
        if self._ended or not self._writable:
            return False
        if not self._in_flight:
            return True
        if frame[:2] in _LARGE_ANSWERS or (self._alone is not None and not self._alone.done()):
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
        """Hand one request to its handler; send the answer now, or when it and its turn come."""
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
            answer = self._listener.dispatcher.api_versions_response(
                0, ErrorCode.unsupported_version
            )
            self._send(response_pieces(answer, head.correlation_id))
            return
        request = decode_request(frame, head)
        if head.client_id != self._context.client_id:
            self._set_context(head.client_id, self._context.principal)
        try:
            answer = handler(request.entity, self._context)
            if isinstance(answer, ExclusiveResponse):
                self._alone = answer = asyncio.ensure_future(answer.answer)
            if isinstance(answer, Awaitable):
                self._await(head, asyncio.ensure_future(answer), frame)
            elif self._in_flight:
                done = asyncio.get_running_loop().create_future()
                done.set_result(answer)
                self._await(head, done, frame)
            elif answer is not None:
                self._send(response_pieces(answer, head.correlation_id))
        except Unanswerable:
            raise
        except Exception as error:
            self._handler_failed(head, error)

    def _await(self, head: RequestHead, answer: "asyncio.Future[Any]", frame: bytes) -> None:
        self._in_flight.append(_InFlight(head, answer, len(frame)))
        self._bytes_in_flight += len(frame)
        answer.add_done_callback(self._send_ready)

    def _send_ready(self, done: "asyncio.Future[Any]") -> None:
        if not done.cancelled():
            done.exception()  # seen, also where nobody is left to be told
        in_flight = self._in_flight
        while in_flight and in_flight[0].answer.done():
            head, answer, size = in_flight.popleft()
            self._bytes_in_flight -= size
            if not self._ended and not answer.cancelled():
                self._conclude(head, answer)
        self._work_off()

    def _conclude(self, head: RequestHead, answer: "asyncio.Future[Any]") -> None:
        # Asked for and not raised: an error whose traceback had this frame in it, which has the
        # future, which has the error, would keep the request in memory.
        error = answer.exception()
        if isinstance(error, Unanswerable):
            self._refuse(error)
        elif error is not None:
            self._handler_failed(head, error)
        elif (message := answer.result()) is not None:
            try:
                self._send(response_pieces(message, head.correlation_id))
            except Exception as unwritable:
                self._handler_failed(head, unwritable)

    def _authenticate(self, server: SaslServer, frame: bytes) -> None:
        if server.wants_bare_token:
            answer = server.bare_token(frame)
        else:
            head = read_request_head(frame)
            if head.api_key == API_VERSIONS:
                self._serve(frame, head)
                return
            answer = server.request(frame, head)
        self._send(answer.pieces)
        if answer.failure:
            self._end(answer.failure)
        elif server.user is not None:
            self._frames.max_frame_bytes = self._listener.max_frame_bytes
            self._set_context(self._context.client_id, f"User:{server.user}")

    # -- bytes ---------------------------------------------------------------------------------

    def _decrypted(self, tls: Tls, data: bytes) -> bytes:
        early = not tls.established
        try:
            return tls.receive(data)
        finally:
            reply = tls.outgoing()  # of the handshake, or the alert that says what is wrong
            if reply and self._transport is not None:
                self._transport.write(reply)
            if tls.ended and self._transport is not None:
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
            self._hold_answers()

    def _touch(self) -> None:
        self.last_active_s = asyncio.get_running_loop().time()

    def _set_context(self, client_id: str | None, principal: str) -> None:
        self._context = RequestContext(
            listener=self._listener.name,
            peer_host=self.peer_host,
            client_id=client_id,
            principal=principal,
        )

    # -- endings -------------------------------------------------------------------------------

    def _refuse(self, error: object) -> None:
        """End a connection that misbehaves; a peer whose TLS failed is told so."""
        if isinstance(error, TlsFailed):
            self._end(error)
            return
        self._listener.connections.warn("closing the connection of %s: %s", self.peer_host, error)
        self.close()

    def _end(self, reason: object) -> None:
        """End the connection when all that it was told is sent."""
        self._listener.connections.warn("closing the connection of %s: %s", self.peer_host, reason)
        self._let_go()
        if self._transport is not None:
            self._transport.close()

    def _handler_failed(self, head: RequestHead, error: BaseException) -> None:
        self._listener.connections.fail(
            error, "api key %d v%d from %s failed", head.api_key, head.api_version, self.peer_host
        )
        self.close()
