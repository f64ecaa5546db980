"""Looks on at a simulated network: who sent which bytes to whom, and when they got there.

Nothing is decoded while the run goes on: bytes and times are kept as they come. `frames` cuts them
into Kafka's frames afterwards. Of one run that is some ten megabytes, and a run is bounded.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from harness.simulation.world.network.network import EPHEMERAL

if TYPE_CHECKING:
    from harness.simulation.world.host import Host
    from harness.simulation.world.network.tcp import Socket
    from harness.simulation.world.world import World

LENGTH: Final = struct.Struct(">i")


@dataclass(slots=True, kw_only=True)
class Stream:
    """One direction of a connection. Times are the world's ns, by a segment's number."""

    number: int
    back: int
    """The number of the other direction."""
    sender: str
    receiver: str
    port: int
    """Of the server's side."""
    by_client: bool
    data: list[bytes] = field(default_factory=list)
    sent_ns: dict[int, int] = field(default_factory=dict)
    held_up_ns: dict[int, int] = field(default_factory=dict)
    """When a segment did not get through, for the first time."""
    arrived_ns: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message's bytes, without their length, on their way."""

    body: bytes
    sent_ns: int
    arrived_ns: int | None
    """When the last byte was there; None: never."""
    held_up_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A program of a machine began or ended."""

    at_ns: int
    host: str
    what: str


class Tap:
    """See `harness.simulation.world.network.observer.Observer`."""

    def __init__(self, world: "World") -> None:
        self.streams: dict[int, Stream] = {}
        """By the number of the socket that sends."""
        self.notes: list[Noted] = []
        self._world = world

    def sent(self, socket: "Socket", number: int, data: bytes) -> None:
        """See the protocol."""
        stream = self.streams.get(socket.number)
        if stream is None:
            stream = self.streams[socket.number] = _stream(socket)
        assert number == len(stream.data)  # only the end of a stream has no bytes
        stream.data.append(data)
        stream.sent_ns[number] = self._world.now_ns

    def held_up(self, socket: "Socket", number: int) -> None:
        """See the protocol."""
        if (stream := self.streams.get(socket.number)) is not None:
            stream.held_up_ns.setdefault(number, self._world.now_ns)

    def arrived(self, socket: "Socket", number: int) -> None:
        """See the protocol."""
        if (stream := self.streams.get(socket.number)) is not None:
            stream.arrived_ns[number] = self._world.now_ns

    def noted(self, host: "Host", what: str) -> None:
        """See the protocol."""
        self.notes.append(Noted(at_ns=self._world.now_ns, host=host.name, what=what))


def _stream(socket: "Socket") -> Stream:
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
    """The whole messages of a stream, in order. One that was cut off by the end of it is left out.

    A message is sent when its first byte is, and there when its last byte is.
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
