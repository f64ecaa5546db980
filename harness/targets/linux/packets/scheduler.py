"""Decide when a packet of a degraded link goes on: delay, jitter, reordering and rate, without I/O.

A scheduler serves one link in one direction. Each fault on the link is a layer: the delays of all
layers add up, the lowest rate holds, and a packet is reordered when any layer draws so. All other
packets keep their order. Times are seconds of one monotonic clock.
"""

import random
from collections.abc import Mapping
from typing import Final, NamedTuple

BACKLOG_S: Final = 1.0
"""How long a packet may wait on a link with a limited rate. A packet that would wait longer is
lost, as in a router whose queue is full."""


class Layer(NamedTuple):
    """The effect of one fault on a link."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    reordered: float = 0.0
    """Share of packets that overtake delayed packets, from 0 to 1."""
    bytes_per_s: int = 0
    """0 for no limit."""


class PacketCounts(NamedTuple):
    """Counts of a link's packets since its first layer."""

    delayed: int = 0
    delayed_s: float = 0.0
    """Sum of the delays of the packets that have gone on."""
    lost: int = 0
    reordered: int = 0


class PacketScheduler:
    """The schedule of one link's packets."""

    def __init__(self, rng: random.Random) -> None:
        """`rng` draws jitter and reordering."""
        self.layers: dict[str, Layer] = {}
        self.counts = PacketCounts()
        self._rng = rng
        self._last_s = 0.0
        """When the last packet that keeps its order goes on."""
        self._free_s = 0.0
        """When the last packet has passed the rate limit."""

    def schedule(self, now_s: float, size_bytes: int) -> float | None:
        """Return when the packet that arrives now goes on; None when it is lost."""
        passed_s = self._through_bottleneck(now_s, size_bytes)
        if passed_s is None:
            self.counts = self.counts._replace(lost=self.counts.lost + 1)
            return None
        if self._last_s > now_s and any(self._draw(x.reordered) for x in self.layers.values()):
            self.counts = self.counts._replace(reordered=self.counts.reordered + 1)
            return now_s
        delay_ms = sum(
            max(0.0, layer.delay_ms + self._rng.uniform(-layer.jitter_ms, layer.jitter_ms))
            for layer in self.layers.values()
        )
        self._last_s = max(self._last_s, passed_s + delay_ms / 1e3)
        return self._last_s

    def record_departure(self, arrived_s: float, now_s: float) -> None:
        """Count a packet that goes on now."""
        self.counts = self.counts._replace(
            delayed=self.counts.delayed + 1, delayed_s=self.counts.delayed_s + now_s - arrived_s
        )

    def flushed(self, now_s: float) -> None:
        """Note that no packet is held any more, so that the next packet does not wait."""
        self._last_s = self._free_s = now_s

    def _through_bottleneck(self, now_s: float, size_bytes: int) -> float | None:
        rates = [layer.bytes_per_s for layer in self.layers.values() if layer.bytes_per_s]
        if not rates:
            return now_s
        begins_s = max(now_s, self._free_s)
        if begins_s - now_s > BACKLOG_S:
            return None
        self._free_s = begins_s + size_bytes / min(rates)
        return self._free_s

    def _draw(self, share: float) -> bool:
        return share > 0 and self._rng.random() < share


def layer_from_fields(fields: Mapping[str, float]) -> Layer:
    """Return a layer from the fields of a JSON object. Raises TypeError for unknown fields."""
    return Layer(**fields)  # type: ignore[arg-type]
