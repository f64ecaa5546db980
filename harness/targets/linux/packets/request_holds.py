"""The packets of one source machine that wait because a request is held: which connections, which
packets. No I/O.

A held request is the part of a TCP connection from the packet on in which it begins or, if its
client id and its name come later, in which these end. Everything that follows on that connection
waits with it, also retransmitted packets and the end of the connection. Other connections pass.
"""

import socket
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from harness.targets.request_stream import RequestStream, RequestWatch
from nemesis.requests import RequestFilter

MAX_CONNECTIONS: Final = 4096
"""Connections whose requests are followed; beyond it the oldest is forgotten."""
_FIN, _SYN, _RST = 0x01, 0x02, 0x04
_TCP: Final = socket.IPPROTO_TCP


class Segment(NamedTuple):
    """A TCP segment."""

    connection: str
    """The sender's address and TCP port."""
    port: int
    """The TCP port to which it is sent."""
    sequence: int
    flags: int
    data: bytes


def read_segment(packet: bytes) -> Segment | None:
    """Return the TCP segment of an IPv4 packet; None if it is something else."""
    if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != _TCP:
        return None
    begin = 4 * (packet[0] & 0x0F)
    source, port, sequence = struct.unpack_from(">HHI", packet, begin)
    data = packet[begin + 4 * (packet[begin + 12] >> 4) :]
    address = socket.inet_ntoa(packet[12:16])
    return Segment(f"{address}:{source}", port, sequence, packet[begin + 13], data)


class _Connection:
    """The stream of one connection, and the sequence number of its next byte."""

    def __init__(self) -> None:
        self.stream = RequestStream()
        self.next: int | None = None


class RequestHolds:
    """See the module. Packets are the kernel's numbers of them."""

    def __init__(self) -> None:
        self.watches: dict[str, RequestWatch] = {}
        """By layer."""
        self._connections: dict[str, _Connection] = {}
        self._held: dict[str, list[int]] = {}
        """The packets that wait, by connection."""

    def watch(
        self, layer: str, port: int, hold: Sequence[Any] | None, note: Sequence[Any] | None
    ) -> None:
        """Add a layer, or change its filters; these are the fields of a RequestFilter."""
        found = self.watches.setdefault(layer, RequestWatch(port))
        found.hold = None if hold is None else RequestFilter(*hold)
        found.note = None if note is None else RequestFilter(*note)

    def let_go(self, layer: str, now_s: float) -> list[int]:
        """Hold the layer's request no longer; return the packets that pass now, in order."""
        watch = self.watches.get(layer)
        if watch is None or watch.connection is None:
            return []
        connection = watch.connection
        watch.let_go(now_s)
        if any(each.connection == connection for each in self.watches.values()):
            return []
        return self._held.pop(connection, [])

    def unwatch(self, layer: str, now_s: float) -> list[int]:
        """Remove a layer; return the packets that pass now, in order."""
        passing = self.let_go(layer, now_s)
        self.watches.pop(layer, None)
        return passing

    def seen(self, layer: str, now_s: float) -> dict[str, Any]:
        """Return what the layer has seen, as the fields of a WatchedRequests."""
        watch = self.watches.get(layer)
        return {} if watch is None else watch.report(now_s)._asdict()

    def keep(self, packet: int, content: bytes, now_s: float) -> bool:
        """Look at a packet that arrives now; return whether it waits."""
        segment = read_segment(content)
        if segment is None:
            return False
        if segment.connection in self._held:
            self._held[segment.connection].append(packet)
            return True
        watches = [each for each in self.watches.values() if each.port == segment.port]
        for request in self._requests(segment) if watches else ():
            decisions = [each.holds(segment.connection, request, now_s) for each in watches]
            if any(decisions):
                self._held[segment.connection] = [packet]
                break
        return segment.connection in self._held

    def _requests(self, segment: Segment) -> list[Any]:
        if segment.flags & (_SYN | _RST | _FIN):
            self._connections.pop(segment.connection, None)
        if not segment.data:
            return []
        found = self._connections.get(segment.connection)
        if found is None:
            if len(self._connections) >= MAX_CONNECTIONS:
                del self._connections[next(iter(self._connections))]
            found = self._connections[segment.connection] = _Connection()
        if found.next not in (None, segment.sequence):
            missing = (segment.sequence - (found.next or 0)) & 0xFFFF_FFFF
            if missing >= 1 << 31:  # sent again
                return []
            found.stream = RequestStream()  # some bytes took another way
        found.next = (segment.sequence + len(segment.data)) & 0xFFFF_FFFF
        return found.stream.feed(segment.data)
