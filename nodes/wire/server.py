"""The serving side of a connection: requests in, answers out in the same order.

Every connection may have several requests in flight, as Kafka's clients do: each is handed to its
handler as it arrives, and the answers leave in the order of the requests, whichever is ready first.
What a peer can cost is bounded: frames by `max_frame_bytes`, requests in flight by MAX_IN_FLIGHT
(reading stops until some are answered), unsent answers by the transport's flow control (likewise).
A peer that sends garbage loses its connection and costs one log line, nothing more.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from kio.schema.errors import ErrorCode

from nodes.wire.codec import decode_request, response_pieces
from nodes.wire.errors import MalformedFrame, Unanswerable, UnsupportedVersion
from nodes.wire.frames import FrameBuffer, Piece, RequestHead, read_request_head
from nodes.wire.versions import Draft, response_class

PRODUCE = 0
API_VERSIONS = 18
MAX_IN_FLIGHT = 64

ADVERTISED_OLDEST: Mapping[int, int] = {PRODUCE: 0}
"""Older than what is served, on purpose: librdkafka 2.0, for one, compresses nothing unless Produce
v0 is advertised, although it never sends it. Kafka 4 says the same untruth (KAFKA-18659)."""

log = logging.getLogger("nodes.wire")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Who asks: the connection's peer, the listener it came by, the client's name for itself."""

    listener: str
    peer_host: str
    client_id: str | None


Handler = Callable[[Any, RequestContext], "Awaitable[Any] | Any"]
"""Takes a request entity; returns the response (or an awaitable of it), None for no answer. Raises
Unanswerable to have the connection closed; anything else it raises is a bug of ours."""


class Api(NamedTuple):
    """One served api: the versions accepted (both ends included) and its handler."""

    oldest: int
    newest: int
    handler: Handler


class Dispatcher:
    """The table of served apis of one listener; ApiVersions is answered from it."""

    def __init__(self, apis: Mapping[int, Api]) -> None:
        self._apis = dict(apis)
        self._apis[API_VERSIONS] = Api(0, 4, self._api_versions)

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
        values = {"error_code": error, "api_keys": keys}
        return Draft(response_class(API_VERSIONS, version), values)


class ServerConnection(asyncio.Protocol):
    """One accepted connection."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        listener: str,
        max_frame_bytes: int,
        open_connections: "set[ServerConnection]",
    ) -> None:
        self._dispatcher = dispatcher
        self._listener = listener
        self._frames = FrameBuffer(max_frame_bytes)
        self._open_connections = open_connections
        self._transport: asyncio.Transport | None = None
        self._peer = "?"
        self._answers: deque[asyncio.Future[list[Piece] | None]] = deque()
        self._backlog: deque[bytes] = deque()
        self._writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._open_connections.add(self)
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else "?"

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._open_connections.discard(self)
        self._backlog.clear()
        for answer in self._answers:
            answer.cancel()
        self._answers.clear()

    def close(self) -> None:
        """Drop the connection at once, and what it sent and was not read yet."""
        # Now, not when the loop gets round to `connection_lost`: what follows garbage is garbage.
        transport, self._transport = self._transport, None
        self._backlog.clear()
        if transport is not None:
            transport.abort()

    def pause_writing(self) -> None:
        self._writable = False
        self._apply_back_pressure()

    def resume_writing(self) -> None:
        self._writable = True
        self._work_off()

    def data_received(self, data: bytes) -> None:
        try:
            self._backlog.extend(self._frames.feed(data))
        except MalformedFrame as error:
            self._refuse(error)
            return
        self._work_off()

    def _work_off(self) -> None:
        while self._backlog and self._writable and len(self._answers) < MAX_IN_FLIGHT:
            if self._transport is None:
                return
            self._start(self._backlog.popleft())
        self._apply_back_pressure()

    def _apply_back_pressure(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._backlog or not self._writable:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _start(self, frame: bytes) -> None:
        """Hand one request to its handler; send the answer now, or when it and its turn come."""
        try:
            head = read_request_head(frame)
            handler = self._dispatcher.find(head)
            request = decode_request(frame, head)
        except UnsupportedVersion as error:
            self._unsupported(head, error)
            return
        except MalformedFrame as error:
            self._refuse(error)
            return
        context = RequestContext(
            listener=self._listener, peer_host=self._peer, client_id=head.client_id
        )
        try:
            answer = handler(request.entity, context)
        except Unanswerable as error:
            self._refuse(error)
            return
        except Exception:
            self._handler_failed(head)
            return
        if isinstance(answer, Awaitable):
            self._answers.append(asyncio.ensure_future(self._later(head, answer)))
            self._answers[-1].add_done_callback(self._send_ready)
        elif self._answers:
            done: asyncio.Future[list[Piece] | None] = asyncio.get_running_loop().create_future()
            done.set_result(_encoded(answer, head))
            self._answers.append(done)
        elif answer is not None and self._transport is not None:
            self._transport.writelines(response_pieces(answer, head.correlation_id))

    async def _later(self, head: RequestHead, answer: Awaitable[Any]) -> list[Piece] | None:
        try:
            return _encoded(await answer, head)
        except Exception:
            self._handler_failed(head)
            return None

    def _send_ready(self, _: "asyncio.Future[list[Piece] | None]") -> None:
        answers = self._answers
        while answers and answers[0].done():
            answer = answers.popleft()
            frame = None if answer.cancelled() else answer.result()
            if frame is not None and self._transport is not None:
                self._transport.writelines(frame)
        self._work_off()

    def _unsupported(self, head: RequestHead, error: UnsupportedVersion) -> None:
        if head.api_key != API_VERSIONS or self._answers or self._transport is None:
            self._refuse(error)
            return
        answer = self._dispatcher.api_versions_response(0, ErrorCode.unsupported_version)
        self._transport.writelines(response_pieces(answer, head.correlation_id))

    def _refuse(self, error: Exception) -> None:
        log.warning("closing the connection of %s: %s", self._peer, error)
        self.close()

    def _handler_failed(self, head: RequestHead) -> None:
        log.exception("api key %d v%d from %s failed", head.api_key, head.api_version, self._peer)
        self.close()


def _encoded(answer: Any, head: RequestHead) -> list[Piece] | None:
    return None if answer is None else response_pieces(answer, head.correlation_id)
