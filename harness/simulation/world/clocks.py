"""The wall clock of a simulated host: the world's time, set apart by layers and by a drift.

Nothing else is affected: timers and `loop.time()` are the world's, whatever a wall clock shows.
"""

from typing import Final

from harness.simulation.world.world import MS, World

EPOCH_MS: Final = 1_700_000_000_000
"""What a clock that is right shows when the world begins."""


class WallClock:
    """See the module. Offsets are milliseconds ahead (negative: behind); layers add up."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._layers: dict[str, float] = {}
        self.looked = False
        """Whether it was looked at since it was set last."""
        self._drift = 0.0
        self._drifts_since_ns = 0
        self._drifted_ms = 0.0

    def ms(self) -> int:
        """What it shows, in milliseconds since 1970."""
        self.looked = True
        return EPOCH_MS + int(self._world.now_ns / MS + self.ahead_ms)

    @property
    def ahead_ms(self) -> float:
        """How far it is ahead of the true time."""
        drifting_ms = self._drift * (self._world.now_ns - self._drifts_since_ns) / MS
        return self._drifted_ms + drifting_ms + sum(self._layers.values())

    def skew(self, layer: str, offset_ms: float) -> None:
        """Set it apart by so much more than without the layer; once more changes it."""
        self._layers[layer] = offset_ms
        self.looked = False

    def unskew(self, layer: str) -> None:
        """Take a layer away, if there is one."""
        self._layers.pop(layer, None)
        self.looked = False

    def asked_ms(self, layer: str = "") -> float:
        """What the layer adds, or all layers together do; 0 without any."""
        return self._layers.get(layer, 0.0) if layer else sum(self._layers.values())

    def drift(self, ppm: float) -> None:
        """From now on gain so many microseconds a second; 0 stops it, where it is by then."""
        now_ns = self._world.now_ns
        self._drifted_ms += self._drift * (now_ns - self._drifts_since_ns) / MS
        self._drift, self._drifts_since_ns = ppm / 1e6, now_ns
