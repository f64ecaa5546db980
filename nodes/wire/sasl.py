"""The server's side of SASL/PLAIN: authenticates a connection before its first request. Pure.

A client sends SaslHandshake and then its token: in a SaslAuthenticate request after a handshake of
v1 (KIP-152), or as a frame of its own without header after v0. ApiVersions may come before. Any
other request, or one of these twice, ends the connection, as in Kafka. The only mechanism is PLAIN
(RFC 4616), which sends the password in clear text, so use it with TLS.
"""

import hmac
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.wire.codec import decode_request, response_pieces
from nodes.wire.errors import MalformedFrame, UnsupportedVersion
from nodes.wire.frames import Piece, RequestHead, framed
from nodes.wire.versions import respond

HANDSHAKE = 17
AUTHENTICATE = 36
HANDSHAKE_VERSIONS = (0, 1)
AUTHENTICATE_VERSIONS = (0, 2)
MECHANISM = "PLAIN"
MAX_FRAME_BYTES = 512 << 10
"""As Kafka's sasl.server.max.receive.size: the limit for a peer that is not authenticated yet."""
_MAX_NAME_SHOWN = 64
_OTHER_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class _State(Enum):
    HANDSHAKE = auto()
    TOKEN = auto()
    BARE_TOKEN = auto()
    DONE = auto()


class SaslResponse(NamedTuple):
    """The response, and why the connection has to end after it (empty: it continues)."""

    pieces: list[Piece]
    failure: str = ""


class SaslServer:
    """One connection's authentication against `users` (passwords by name)."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self._state = _State.HANDSHAKE
        self.user: str | None = None

    @property
    def done(self) -> bool:
        """Whether the peer is authenticated; `user` is its name."""
        return self._state is _State.DONE

    @property
    def wants_bare_token(self) -> bool:
        """Whether the next frame is a token without any header."""
        return self._state is _State.BARE_TOKEN

    def bare_token(self, frame: bytes) -> SaslResponse:
        """Check the token that follows a handshake of v0."""
        failure = self._check(frame)
        return SaslResponse([], failure) if failure else SaslResponse(framed([b""]))

    def request(self, frame: bytes, head: RequestHead) -> SaslResponse:
        """Handle a request. Raises MalformedFrame if it is not allowed now."""
        expected = {_State.HANDSHAKE: HANDSHAKE, _State.TOKEN: AUTHENTICATE}[self._state]
        if head.api_key != expected:
            raise MalformedFrame(f"api key {head.api_key} before authentication")
        oldest, newest = HANDSHAKE_VERSIONS if expected == HANDSHAKE else AUTHENTICATE_VERSIONS
        if not oldest <= head.api_version <= newest:
            raise UnsupportedVersion(f"api key {expected} v{head.api_version} is not served")
        request = decode_request(frame, head).entity
        handle = self._handshake if expected == HANDSHAKE else self._authenticate
        response, failure = handle(request)
        return SaslResponse(response_pieces(response, head.correlation_id), failure)

    def _handshake(self, request: Any) -> tuple[Any, str]:
        if request.mechanism != MECHANISM:
            error, failure = ErrorCode.unsupported_sasl_mechanism, "unsupported SASL mechanism"
        else:
            error, failure = ErrorCode.none, ""
            self._state = _State.TOKEN if request.__version__ else _State.BARE_TOKEN
        return respond(request, error_code=error, mechanisms=[MECHANISM]), failure

    def _authenticate(self, request: Any) -> tuple[Any, str]:
        failure = self._check(request.auth_bytes)
        if not failure:
            return respond(request), ""
        error = ErrorCode.sasl_authentication_failed
        # The user name is only in our log: the response has no more than Kafka's.
        message = failure.partition(" (")[0]
        return respond(request, error_code=error, error_message=message), failure

    def _check(self, token: bytes) -> str:
        """Check a token; return why it is wrong. If it is right, return "" and be `done`."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            parts = []
        if len(parts) != 3:
            return "Authentication failed: Invalid SASL/PLAIN response"
        acting_as, username, password = parts
        if not username or not password:
            return "Authentication failed: username or password not specified"
        if acting_as not in ("", username):
            return _OTHER_ID
        known = self._users.get(username)
        right = hmac.compare_digest(password.encode(), (known or "").encode())
        if known is None or not right:
            shown = username[:_MAX_NAME_SHOWN]
            return f"Authentication failed: Invalid username or password (user {shown!r})"
        self._state, self.user = _State.DONE, username
        return ""


def plain_token(username: str, password: str) -> bytes:
    """Return a client's token."""
    return f"\0{username}\0{password}".encode()
