"""One direction between two machines of a simulated world: its latency, and what faults do to it.

Packets are segments of TCP connections. The sender's kernel retransmits a lost packet, so a loss is
a delay. Times are Linux's defaults.
"""

from dataclasses import dataclass
from typing import Final

from harness.simulation.world.world import MS, NS, World
from harness.targets.request_stream import RequestWatch
from nemesis.hosts import Cut, LinkCounters, LinkQuality

FIRST_RETRY_NS: Final = 200 * MS
"""TCP's minimum retransmission time-out (tcp(7))."""
LAST_RETRY_NS: Final = 120 * NS
GIVE_UP_NS: Final = 924 * NS
"""The default of tcp_retries2, as a time."""
MAX_RETRANSMISSIONS: Final = 10
LOOPBACK_NS: Final = 20_000


Address = tuple[str, int]
"""A host's address and a port."""


@dataclass(frozen=True, slots=True)
class SocketName:
    """A stand-in for a socket object. It only knows the addresses of both ends."""

    own: Address
    peer: Address = ("", 0)

    def getsockname(self) -> Address:
        return self.own

    def getpeername(self) -> Address:
        return self.peer


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """The quality of the network without faults; each link draws its values from these ranges."""

    base_ns: tuple[int, int] = (100_000, 600_000)
    """The least time that a packet takes on the link."""
    jitter_ns: tuple[int, int] = (20_000, 400_000)
    """The most that is added to it."""
    fragmented: float = 0.03
    """The share of writes that arrive in two parts."""
    lost: float = 0.0


@dataclass(slots=True, kw_only=True)
class _Layer:
    """What one fault does to a link, and the counts of what it did."""

    quality: LinkQuality
    free_at_ns: int = 0
    """When the last packet will have passed the rate limit."""
    packets: int = 0
    delayed: int = 0
    delay_ns: int = 0
    lost: int = 0
    reordered: int = 0
    duplicated: int = 0


@dataclass(slots=True)
class CutCounter:
    """A cut in force with its dropped packets, or the count of requests whose answers are cut."""

    cut: Cut
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketHeader:
    """What a link needs to know of a packet: its ports, and whether it carries data."""

    source: int
    target: int
    data: bool = True


class Link:
    """One direction between two machines."""

    def __init__(self, world: World, src: int, dst: int, settings: NetworkSettings) -> None:
        self._world = world
        self._rng = rng = world.stream("link", src, dst)
        if src == dst:
            self._base_ns, self._jitter_ns = LOOPBACK_NS, LOOPBACK_NS
        else:
            self._base_ns = rng.randint(*settings.base_ns)
            self._jitter_ns = rng.randint(*settings.jitter_ns)
        self._chance = rng.random
        self._lost = settings.lost
        self.fragmented = settings.fragmented
        self.packets = 0
        """The number of packets that arrived."""
        self.dropped = 0
        self.cuts: list[CutCounter] = []
        self.request_counters: list[CutCounter] = []
        """Counts of requests on their way to a server whose answers are cut."""
        self._layers: dict[str, _Layer] = {}
        self.watches: dict[str, RequestWatch] = {}
        """What waits for requests on the link, by layer."""

    def fragment(self, size: int) -> int:
        """Return where to split a write of `size` bytes; 0 for no split."""
        if size > 1 and self._chance() < self.fragmented:
            return 1 + int(self._chance() * (size - 1))
        return 0

    def drops(self, packet: PacketHeader) -> bool:
        """Whether a cut drops a packet that is on the link now; dropped packets are counted."""
        dropped = False
        for watch in self.cuts:
            if _matches(watch.cut, packet):
                watch.count += 1
                dropped = True
        self.dropped += dropped
        return dropped

    def arrived(self, packet: PacketHeader) -> None:
        """Count a packet that passed the link."""
        self.packets += 1
        for watch in self.request_counters:
            if packet.data and packet.target == watch.cut.port:
                watch.count += 1

    def delay_ns(self, size: int) -> int:
        """Return how long a packet that is sent now takes, with its retransmissions."""
        delay = self._base_ns + int(self._jitter_ns * self._chance())
        if self._lost:
            delay += self._retransmission(self._lost)[0]
        for layer in self._layers.values():
            delay += self._layer_delay_ns(layer, size)
        return delay

    def _layer_delay_ns(self, layer: _Layer, size: int) -> int:
        quality, rng, now_ns = layer.quality, self._rng, self._world.now_ns
        layer.packets += 1
        delay = 0
        if quality.lost:
            delay, times = self._retransmission(quality.lost)
            layer.lost += times
        if quality.duplicated and rng.random() < quality.duplicated:
            layer.duplicated += 1  # TCP drops the second
        if quality.bytes_per_s:
            layer.free_at_ns = max(layer.free_at_ns, now_ns) + size * NS // quality.bytes_per_s
            delay += layer.free_at_ns - now_ns
        if quality.delay_ms or quality.jitter_ms:
            if quality.reordered and rng.random() < quality.reordered:
                layer.reordered += 1
            else:
                some_ms = rng.uniform(-quality.jitter_ms, quality.jitter_ms)
                delay += max(0, int((quality.delay_ms + some_ms) * MS))
        if delay:
            layer.delayed += 1
            layer.delay_ns += delay
        return delay

    def _retransmission(self, lost: float) -> tuple[int, int]:
        delay, times = 0, 0
        while times < MAX_RETRANSMISSIONS and self._rng.random() < lost:
            delay += FIRST_RETRY_NS << times
            times += 1
        return delay, times

    # -- faults

    def degrade(self, quality: LinkQuality, layer: str) -> None:
        """Add a layer to the link; it replaces the layer of that name."""
        self._layers[layer] = _Layer(quality=quality)

    def restore(self, layer: str) -> None:
        """Remove a layer, if there is one."""
        self._layers.pop(layer, None)

    def counters(self, layer: str) -> LinkCounters | None:
        """Return the counts of a layer; None without that layer."""
        found = self._layers.get(layer)
        if found is None:
            return None
        return LinkCounters(
            packets=found.packets,
            delayed=found.delayed,
            mean_delay_ms=found.delay_ns / MS / found.delayed if found.delayed else 0.0,
            lost=found.lost,
            reordered=found.reordered,
            duplicated=found.duplicated,
        )


def _matches(cut: Cut, packet: PacketHeader) -> bool:
    if cut.answers:
        return packet.data and packet.source == cut.port
    return not cut.port or cut.port in (packet.source, packet.target)
