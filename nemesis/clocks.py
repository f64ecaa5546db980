"""The interface to the wall clocks of nodes and of a tested program's instances."""

from typing import NamedTuple, Protocol


class ClockReading(NamedTuple):
    """How far a node's wall clock is ahead of the true time, as measured (negative: behind)."""

    least_ms: float
    most_ms: float
    looked: bool
    """Whether the node itself has read its clock since the clock was last set."""

    def allows(self, offset_ms: float) -> bool:
        """Whether the measured range contains that offset."""
        return self.least_ms <= offset_ms <= self.most_ms


class Clocks(Protocol):
    """The nodes' wall clocks; monotonic time is never touched. Layers add up."""

    def skew(self, node: int, layer: str, offset_ms: float) -> None:
        """Set the layer's offset of the node's wall clock (negative: behind), now and after every
        restart of the node; a repeated call changes the offset.
        """
        ...

    def unskew(self, node: int, layer: str) -> None:
        """Remove a layer; do nothing for a missing layer or a machine that is gone."""
        ...

    def requested_offset_ms(self, node: int, layer: str = "") -> float:
        """The offset that the layer adds, or that all layers add together; 0 without any."""
        ...

    def read(self, node: int) -> ClockReading | None:
        """The time that the clock of the node's process shows; None without a process."""
        ...
