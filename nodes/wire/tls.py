"""TLS between a transport and the frames: bytes in, bytes out. No I/O.

It is OpenSSL on memory buffers, driven by the connection, and not the event loop's own TLS. So a
failed handshake is an error with a reason and one log line, the limits on connections hold before
the handshake, and the same code runs on any event loop.
"""

import contextlib
import ssl
from collections.abc import Iterable
from typing import Any

from nodes.wire.errors import TlsFailed
from nodes.wire.frames import Piece

_READ_BYTES = 256 << 10


class Tls:
    """The TLS of one connection. The bytes of `outgoing` have to be sent, also after a failure."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, host: str | None = None):
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._received, self._to_send, server_side=server_side, server_hostname=host
        )
        self._early: list[Piece] = []
        self.established = False
        self.peer_closed = False
        """Whether the peer sent close_notify: it sends nothing more, and waits for the end."""

    def start(self) -> bytes:
        """Return a client's first bytes."""
        self._do_handshake()
        return self.outgoing()

    def receive(self, data: bytes) -> bytes:
        """Return the peer's plain bytes, as far as `data` completes them. Raises TlsFailed."""
        self._received.write(data)
        if not self.established and not self._do_handshake():
            return b""
        parts = []
        try:
            while part := self._object.read(_READ_BYTES):
                parts.append(part)
            self._close()  # the peer sent close_notify
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TlsFailed(f"TLS failed: {_reason(error)}") from error
        return b"".join(parts)

    def send(self, pieces: Iterable[Piece]) -> bytes:
        """Return the bytes to send for `pieces`; none before the handshake is done."""
        if not self.established:
            self._early += pieces
            return b""
        for piece in pieces:
            self._object.write(piece)
        return self.outgoing()

    def outgoing(self) -> bytes:
        """Return the bytes that TLS itself has to send."""
        return self._to_send.read()

    def peer_name(self) -> str | None:
        """The subject of the peer's certificate as Kafka writes it; None without certificate."""
        certificate: Any = self._object.getpeercert()
        if not certificate:
            return None
        parts = [pair for rdn in certificate.get("subject", ()) for pair in rdn]
        return ",".join(f"{_SHORT.get(key, key)}={value}" for key, value in reversed(parts))

    def _close(self) -> None:
        self.peer_closed = True
        with contextlib.suppress(ssl.SSLError):
            self._object.unwrap()

    def _do_handshake(self) -> bool:
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
