"""The requests allowed before authentication, their order and their responses."""

from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.wire.codec import decode_response, encode_request
from nodes.wire.errors import MalformedFrame, UnsupportedVersion
from nodes.wire.frames import read_request_head
from nodes.wire.sasl import AUTHENTICATE, HANDSHAKE, SaslServer, plain_token
from nodes.wire.versions import fill

USERS = {"alice": "secret", "bob": "other"}


def ask(server: SaslServer, api_key: int, version: int, **values: Any) -> tuple[Any, str]:
    """The response and the failure."""
    request = fill(load_request_schema(api_key, version), **values)
    frame = encode_request(request, 5, "c")[4:]
    answer = server.request(frame, read_request_head(frame))
    response = decode_response(b"".join(answer.pieces)[4:], api_key, version)
    return response, answer.failure


def shaken(version: int = 1) -> SaslServer:
    """A connection that has said that it will use PLAIN."""
    server = SaslServer(USERS)
    response, failure = ask(server, HANDSHAKE, version, mechanism="PLAIN")
    assert (response.error_code, list(response.mechanisms), failure) == (0, ["PLAIN"], "")
    return server


@pytest.mark.parametrize("version", [0, 1, 2])
def test_right_password_authenticates_its_user_once(version: int) -> None:
    """Opens the door, for the user that it belongs to, once."""
    server = shaken()
    assert not server.done
    token = plain_token("alice", "secret")
    response, failure = ask(server, AUTHENTICATE, version, auth_bytes=token)
    assert (response.error_code, response.auth_bytes, failure) == (ErrorCode.none, b"", "")
    assert server.done
    assert server.user == "alice"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (plain_token("alice", "wrong"), "Authentication failed: Invalid username or password"),
        (plain_token("alice", "other"), "Authentication failed: Invalid username or password"),
        (plain_token("eve", "secret"), "Authentication failed: Invalid username or password"),
        (plain_token("", "secret"), "username or password not specified"),
        (plain_token("alice", ""), "username or password not specified"),
        (b"bob\0alice\0secret", "Client requested an authorization id that is different"),
        (b"alice", "Invalid SASL/PLAIN response"),
        (b"\0alice\0secret\0more", "Invalid SASL/PLAIN response"),
        (b"\xff\xfe", "Invalid SASL/PLAIN response"),
        (b"", "Invalid SASL/PLAIN response"),
    ],
)
def test_wrong_tokens_are_refused(token: bytes, message: str) -> None:
    """With SASL_AUTHENTICATION_FAILED and a reason, which does not say whether the user exists."""
    server = shaken()
    response, failure = ask(server, AUTHENTICATE, 2, auth_bytes=token)
    assert response.error_code is ErrorCode.sasl_authentication_failed
    assert message in response.error_message
    assert message in failure
    assert "eve" not in response.error_message
    assert not server.done


def test_token_is_a_bare_frame_after_handshake_v0() -> None:
    """And so is the response."""
    server = shaken(version=0)
    assert server.wants_bare_token
    answer = server.bare_token(plain_token("bob", "other"))
    assert (b"".join(answer.pieces), answer.failure, server.user) == (b"\0\0\0\0", "", "bob")
    server = shaken(version=0)
    answer = server.bare_token(plain_token("bob", "wrong"))
    assert answer.pieces == []
    assert "Invalid username or password" in answer.failure
    assert not server.done


def test_unknown_mechanism_ends_the_connection() -> None:
    """The response names the supported mechanism."""
    response, failure = ask(SaslServer(USERS), HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
    assert response.error_code is ErrorCode.unsupported_sasl_mechanism
    assert list(response.mechanisms) == ["PLAIN"]
    assert failure


def test_other_requests_before_authentication_are_refused() -> None:
    """Also these requests in another order, or in versions that are not served."""
    for server, api_key in (
        (SaslServer(USERS), 3),
        (SaslServer(USERS), AUTHENTICATE),
        (shaken(), HANDSHAKE),
        (shaken(), 0),
    ):
        with pytest.raises(MalformedFrame, match="before authentication"):
            ask(server, api_key, 9 if api_key == 0 else 1)
    frame = b"\0\x11\0\x09\0\0\0\1\xff\xff"
    with pytest.raises(UnsupportedVersion):
        SaslServer(USERS).request(frame, read_request_head(frame))
