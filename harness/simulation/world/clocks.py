"""The wall clock of a simulated host: the world's time plus the offsets of faults and a drift.

A wall clock affects nothing else: timers and `loop.time()` use the world's time.
"""

from typing import Final

from harness.simulation.world.world import MS, World

EPOCH_MS: Final = 1_700_000_000_000
"""What a correct clock shows when the world begins."""


class WallClock:
    """See the module. Offsets are milliseconds ahead (negative: behind); the layers add up."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._layers: dict[str, float] = {}
        self.was_read = False
        """Whether the program read the clock since the last change."""
        self.changed = False
        """Whether a fault ever changed the clock."""
        self._drift = 0.0
        self._drifts_since_ns = 0
        self._drifted_ms = 0.0

    def ms(self) -> int:
        """Return the clock's milliseconds since 1970."""
        self.was_read = True
        return self.shown_ms

    @property
    def shown_ms(self) -> int:
        """What the clock shows, for those that only watch."""
        return EPOCH_MS + int(self._world.now_ns / MS + self.ahead_ms)

    @property
    def ahead_ms(self) -> float:
        """How far the clock is ahead of the true time."""
        drifting_ms = self._drift * (self._world.now_ns - self._drifts_since_ns) / MS
        return self._drifted_ms + drifting_ms + sum(self._layers.values())

    def skew(self, layer: str, offset_ms: float) -> None:
        """Set the offset of a layer; a second call replaces it."""
        self._layers[layer] = offset_ms
        self.was_read, self.changed = False, True

    def unskew(self, layer: str) -> None:
        """Remove a layer, if there is one."""
        self._layers.pop(layer, None)
        self.was_read = False

    def requested_offset_ms(self, layer: str = "") -> float:
        """Return the offset of the layer, or of all layers together; 0 without a layer."""
        return self._layers.get(layer, 0.0) if layer else sum(self._layers.values())

    def drift(self, ppm: float) -> None:
        """Gain this many microseconds per second from now on; 0 stops the drift and keeps its
        offset.
        """
        now_ns = self._world.now_ns
        self.changed = True
        self._drifted_ms += self._drift * (now_ns - self._drifts_since_ns) / MS
        self._drift, self._drifts_since_ns = ppm / 1e6, now_ns
