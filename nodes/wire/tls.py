"""TLS between a transport and the frames: bytes in, bytes out.

OpenSSL on memory, driven by whoever owns the connection, rather than the event loop's own TLS: so
a failed handshake is an event with a reason that costs one log line, limits on connections hold
before the handshake, and the same code runs on any loop.

No I/O.
"""

import contextlib
import ssl
from collections.abc import Iterable
from typing import Any

from nodes.wire.errors import TlsFailed
from nodes.wire.frames import Piece

_READ_BYTES = 256 << 10


class Tls:
    """One connection's TLS. What `outgoing` returns has to be sent, also after a failure."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, host: str | None = None):
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._received, self._to_send, server_side=server_side, server_hostname=host
        )
        self._early: list[Piece] = []
        self.established = False
        self.ended = False
        """Whether the peer has said that it will say no more: it waits for the connection's end."""

    def start(self) -> bytes:
        """A client's first bytes."""
        self._shake_hands()
        return self.outgoing()

    def receive(self, data: bytes) -> bytes:
        """What the peer said, as far as `data` completes it. Raises TlsFailed."""
        self._received.write(data)
        if not self.established and not self._shake_hands():
            return b""
        parts = []
        try:
            while part := self._object.read(_READ_BYTES):
                parts.append(part)
            self._say_goodbye()  # nothing, instead of nothing yet
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TlsFailed(f"TLS failed: {_reason(error)}") from error
        return b"".join(parts)

    def send(self, pieces: Iterable[Piece]) -> bytes:
        """The bytes to send for `pieces`; kept back until the handshake is done."""
        if not self.established:
            self._early += pieces
            return b""
        for piece in pieces:
            self._object.write(piece)
        return self.outgoing()

    def outgoing(self) -> bytes:
        """Bytes that TLS itself wants sent."""
        return self._to_send.read()

    def peer_name(self) -> str | None:
        """The subject of the peer's certificate as Kafka writes it, if it has shown one."""
        certificate: Any = self._object.getpeercert()
        if not certificate:
            return None
        parts = [pair for rdn in certificate.get("subject", ()) for pair in rdn]
        return ",".join(f"{_SHORT.get(key, key)}={value}" for key, value in reversed(parts))

    def _say_goodbye(self) -> None:
        self.ended = True
        with contextlib.suppress(ssl.SSLError):
            self._object.unwrap()

    def _shake_hands(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise TlsFailed(f"TLS handshake failed: {_reason(error)}") from error
        self.established = True
        for piece in self._early:
            self._object.write(piece)
        self._early.clear()
        return True


_SHORT = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
}


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate was not accepted: {error.verify_message}"
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"):
        return f"the peer does not speak TLS ({error.reason})"
    return error.reason or str(error)
