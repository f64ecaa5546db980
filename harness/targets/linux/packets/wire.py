"""When a packet of a bad link may go on: delay, jitter, overtaking and rate, decided without I/O.

A wire is one link, one way. What several faults do to it are layers: their delays add up, the
lowest rate holds, and a packet overtakes when any of them lets it. Packets keep their order, except
for those that overtake. Times are seconds of any one monotonic clock.
"""

import random
from collections.abc import Mapping
from typing import Final, NamedTuple

BACKLOG_S: Final = 1.0
"""How long a packet may wait for its turn on a link with a rate: one that would wait longer is
lost, as it is where a router's queue is full."""


class Layer(NamedTuple):
    """What one fault does to a wire."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    reordered: float = 0.0
    """Share of packets that overtake, from 0 to 1."""
    bytes_per_s: int = 0
    """0 for no limit."""


class Tally(NamedTuple):
    """What became of a wire's packets since its first layer."""

    delayed: int = 0
    delayed_s: float = 0.0
    """Together; of those that were let go already."""
    lost: int = 0
    reordered: int = 0


class Wire:
    """One link's packets, as far as deciding goes."""

    def __init__(self, rng: random.Random) -> None:
        """`rng` decides about jitter and overtaking."""
        self.layers: dict[str, Layer] = {}
        self.tally = Tally()
        self._rng = rng
        self._last_s = 0.0
        """When the last packet in order goes."""
        self._free_s = 0.0
        """When the last packet has passed the bottleneck."""

    def arrive(self, now_s: float, size_bytes: int) -> float | None:
        """When the packet that arrives now may go on; None when it is lost."""
        passed_s = self._through_bottleneck(now_s, size_bytes)
        if passed_s is None:
            self.tally = self.tally._replace(lost=self.tally.lost + 1)
            return None
        if self._last_s > now_s and any(self._hits(x.reordered) for x in self.layers.values()):
            self.tally = self.tally._replace(reordered=self.tally.reordered + 1)
            return now_s
        delay_ms = sum(
            max(0.0, layer.delay_ms + self._rng.uniform(-layer.jitter_ms, layer.jitter_ms))
            for layer in self.layers.values()
        )
        self._last_s = max(self._last_s, passed_s + delay_ms / 1e3)
        return self._last_s

    def left(self, arrived_s: float, now_s: float) -> None:
        """Note that a packet went on."""
        self.tally = self.tally._replace(
            delayed=self.tally.delayed + 1, delayed_s=self.tally.delayed_s + now_s - arrived_s
        )

    def flushed(self, now_s: float) -> None:
        """All that was held has been let go: what comes now need not wait for it."""
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

    def _hits(self, share: float) -> bool:
        return share > 0 and self._rng.random() < share


def layer_of(fields: Mapping[str, float]) -> Layer:
    """A layer from the fields of a JSON object. Raises TypeError for others."""
    return Layer(**fields)  # type: ignore[arg-type]
