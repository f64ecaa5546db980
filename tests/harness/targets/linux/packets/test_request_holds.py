"""The packets of a held connection wait, in their order; all others pass."""

import socket
import struct

from harness.targets.linux.packets.request_holds import RequestHolds, read_segment
from tests.support.targets.requests import END_TXN, end_txn

PORT = 9092
HOLD = (END_TXN, "", "tx")


def packet(
    data: bytes, source: int = 5000, sequence: int = 100, port: int = PORT, flags: int = 0x18
) -> bytes:
    """An IPv4 packet with a TCP segment; the checksums are zero."""
    tcp = struct.pack(">HHIIBBHHH", source, port, sequence, 0, 5 << 4, flags, 0, 0, 0) + data
    ip = struct.pack(
        ">BBHHHBBH4s4s",
        *(0x45, 0, 20 + len(tcp), 0, 0, 64, socket.IPPROTO_TCP, 0),
        *(socket.inet_aton("10.0.0.9"), socket.inet_aton("10.0.0.1")),
    )
    return ip + tcp


def holding() -> RequestHolds:
    """A watch for the end of a transaction of `tx`."""
    holds = RequestHolds()
    holds.watch("layer", PORT, HOLD, None)
    return holds


def test_a_segment_is_read_from_its_packet() -> None:
    """Other packets have none."""
    segment = read_segment(packet(b"hello", sequence=7))
    assert segment is not None
    assert (segment.connection, segment.port, segment.sequence, segment.data) == (
        "10.0.0.9:5000", PORT, 7, b"hello",
    )  # fmt: skip
    assert read_segment(b"\x60" * 60) is None
    assert read_segment(b"") is None


def test_the_rest_of_the_connection_waits_with_the_held_request() -> None:
    """Its end too; other connections pass, and everything that waited passes in order."""
    holds = holding()
    assert not holds.keep(1, packet(end_txn("other")), 1.0)
    data, at = end_txn("tx"), 100 + len(end_txn("other"))
    assert holds.keep(2, packet(data, sequence=at), 2.0)
    assert not holds.keep(3, packet(end_txn("tx"), source=5001), 3.0)
    assert holds.keep(4, packet(data, sequence=at), 4.0)  # sent again
    assert holds.keep(5, packet(b"", sequence=at + len(data), flags=0x11), 5.0)
    assert holds.let_go("layer", 6.0) == [2, 4, 5]
    assert not holds.keep(6, packet(b"", sequence=at + len(data), flags=0x10), 7.0)
    assert holds.let_go("layer", 8.0) == []
    seen = holds.seen("layer", 9.0)
    assert (seen["held"].age_ms, seen["held_ms"]) == (7000, 4000)


def test_other_ports_and_retransmitted_segments_hold_nothing() -> None:
    """An answer begins with a length and a number too; a segment counts once."""
    holds = holding()
    assert not holds.keep(1, packet(end_txn("tx"), port=5000), 1.0)
    part = end_txn("tx")
    assert not holds.keep(2, packet(part[:10]), 2.0)
    assert not holds.keep(3, packet(part[:10]), 3.0)
    assert holds.keep(4, packet(part[10:], sequence=110), 4.0)


def test_two_layers_that_hold_one_connection_both_let_it_go() -> None:
    """It passes with the last of them; a removed layer is no longer there."""
    holds = holding()
    holds.watch("second", PORT, HOLD, None)
    assert holds.keep(1, packet(end_txn("tx")), 1.0)
    assert holds.unwatch("layer", 2.0) == []
    assert holds.unwatch("second", 3.0) == [1]
    assert holds.seen("second", 4.0) == {}
