"""TLS without a transport: two ends that pass their bytes to each other."""

import ssl
from pathlib import Path

import pytest

from nodes.wire.errors import TlsFailed
from nodes.wire.tls import Tls
from tests.support.nodes import certificates
from tests.support.nodes.certificates import Certificates


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """One set for all."""
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def server(files: Certificates, *, client_auth: bool = False) -> Tls:
    """The accepting end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.node)
    if client_auth:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files.authority)
    return Tls(context, server_side=True)


def client(files: Certificates, trusted: Path, key: Path | None = None) -> Tls:
    """The connecting end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(trusted)
    if key is not None:
        context.load_cert_chain(key)
    return Tls(context, server_side=False, host="127.0.0.1")


def shake_hands(one: Tls, other: Tls) -> tuple[bytes, bytes]:
    """Let them exchange bytes until neither has any; what each read of the other."""
    read: dict[Tls, bytes] = {one: b"", other: b""}
    to_other, to_one = one.start(), b""
    for _ in range(10):
        read[other] += other.receive(to_other)
        to_one = other.outgoing()
        read[one] += one.receive(to_one)
        to_other = one.outgoing()
        if not to_other and not to_one:
            break
    return read[one], read[other]


def test_bytes_sent_early_arrive_after_the_handshake(files: Certificates) -> None:
    """A client may write at once; large pieces of any kind arrive unchanged."""
    near, far = client(files, files.authority), server(files)
    assert near.send([b"early ", memoryview(b"bird")]) == b""
    assert shake_hands(near, far) == (b"", b"early bird")
    assert near.established
    assert far.established
    large = bytes(range(256)) * 4096
    assert near.receive(far.send([b"head", large])) == b"head" + large


def test_close_notify_is_answered(files: Certificates) -> None:
    """Peers such as asyncio's wait for it, half a minute, before they close the connection."""
    context = ssl.create_default_context(cafile=str(files.authority))
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = context.wrap_bio(received, to_send, server_hostname="127.0.0.1")
    far = server(files)
    for _ in range(3):
        try:
            peer.do_handshake()
        except ssl.SSLWantReadError:
            far.receive(to_send.read())
            received.write(far.outgoing())
    assert far.receive(to_send.read()) == b""
    received.write(far.outgoing())
    with pytest.raises(ssl.SSLWantReadError):
        peer.unwrap()
    assert far.receive(to_send.read()) == b""
    assert far.peer_closed
    received.write(far.outgoing())
    peer.unwrap()


def test_client_principal_is_the_subject_of_its_certificate(files: Certificates) -> None:
    """In the order and with the names of Kafka's principals."""
    far = server(files, client_auth=True)
    shake_hands(client(files, files.authority, files.client), far)
    assert far.peer_name() == "CN=client,O=highwater"


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x0a\0\x12\0\0\0\0\0\7\0\1x"])
def test_peer_without_tls_has_its_own_error(files: Certificates, first: bytes) -> None:
    """Plain HTTP and plain Kafka raise an error that says so, with an alert to send."""
    far = server(files)
    with pytest.raises(TlsFailed, match="does not speak TLS"):
        far.receive(first)


def test_untrusted_certificates_are_refused(files: Certificates) -> None:
    """By a client that does not trust the node, and by a node for a client without a good
    certificate."""
    with pytest.raises(TlsFailed, match="the certificate was not accepted"):
        shake_hands(client(files, files.stranger), server(files))
    for key in (None, files.stranger):
        with pytest.raises(TlsFailed, match="handshake failed"):
            shake_hands(client(files, files.authority, key), server(files, client_auth=True))
