"""Records a simulated network: which machine sent which bytes to which, and when they arrived.

Nothing is decoded during the run: bytes and times are recorded as they come. `frames` splits them
into Kafka frames afterwards. One run has some ten megabytes, and its length is bounded.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from harness.simulation.world.loop import Machine
from harness.simulation.world.network.network import EPHEMERAL
from harness.simulation.world.network.observer import ConnectionEnd
from harness.simulation.world.world import World

LENGTH: Final = struct.Struct(">i")


@dataclass(slots=True, kw_only=True)
class Stream:
    """One direction of a connection. Times are the world's ns, by segment number."""

    number: int
    back: int
    """The number of the other direction."""
    sender: str
    receiver: str
    port: int
    """The server's port."""
    by_client: bool
    data: list[bytes] = field(default_factory=list)
    sent_ns: dict[int, int] = field(default_factory=dict)
    held_up_ns: dict[int, int] = field(default_factory=dict)
    """When a segment was dropped on its way, for the first time."""
    arrived_ns: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message's bytes, without their length, and their times."""

    body: bytes
    sent_ns: int
    arrived_ns: int | None
    """When the last byte arrived; None if it never did."""
    held_up_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEvent:
    """A program of a machine began or ended."""

    at_ns: int
    host: str
    what: str


class NetworkRecorder:
    """See `harness.simulation.world.network.observer.Observer`."""

    def __init__(self, world: World) -> None:
        self.streams: dict[int, Stream] = {}
        """Streams by the number of the sending socket."""
        self.notes: list[ProgramEvent] = []
        self._world = world

    def sent(self, socket: ConnectionEnd, number: int, data: bytes) -> None:
        """See the protocol."""
        stream = self.streams.get(socket.number)
        if stream is None:
            stream = self.streams[socket.number] = _stream(socket)
        assert number == len(stream.data)  # only the end of a stream has no bytes
        stream.data.append(data)
        stream.sent_ns[number] = self._world.now_ns

    def held_up(self, socket: ConnectionEnd, number: int) -> None:
        """See the protocol."""
        if (stream := self.streams.get(socket.number)) is not None:
            stream.held_up_ns.setdefault(number, self._world.now_ns)

    def arrived(self, socket: ConnectionEnd, number: int) -> None:
        """See the protocol."""
        if (stream := self.streams.get(socket.number)) is not None:
            stream.arrived_ns[number] = self._world.now_ns

    def noted(self, host: Machine, what: str) -> None:
        """See the protocol."""
        self.notes.append(ProgramEvent(at_ns=self._world.now_ns, host=host.name, what=what))


def _stream(socket: ConnectionEnd) -> Stream:
    own, peer = socket.name.own[1], socket.name.peer[1]
    by_client = own in EPHEMERAL
    return Stream(
        number=socket.number,
        back=socket.peer.number,
        sender=socket.loop.host.name,
        receiver=socket.peer.loop.host.name,
        port=peer if by_client else own,
        by_client=by_client,
    )


def frames(stream: Stream) -> Iterator[Frame]:
    """Yield the complete messages of a stream, in order, without one that the end of the stream
    cut.

    A message is sent when its first byte is sent, and arrives when its last byte arrives.
    """
    ends = list(accumulate(map(len, stream.data)))
    data = b"".join(stream.data)
    start = 0
    while start + LENGTH.size <= len(data):
        end = start + LENGTH.size + LENGTH.unpack_from(data, start)[0]
        if not start + LENGTH.size <= end <= len(data):
            return
        first, last = bisect_right(ends, start), bisect_right(ends, end - 1)
        held = [at for n in range(first, last + 1) if (at := stream.held_up_ns.get(n)) is not None]
        yield Frame(
            body=data[start + LENGTH.size : end],
            sent_ns=stream.sent_ns[first],
            arrived_ns=stream.arrived_ns.get(last),
            held_up_ns=min(held, default=None),
        )
        start = end
