"""Records every change that faults make to wall clocks, as rows of the table CLUSTER."""

from collections.abc import Callable
from typing import Any, Final

from nemesis.hosts import ClockReading, Clocks

CLOCK: Final = "clock"
"""The kind of a row: from `at_ns` on, the clock of `node` was requested to be `ahead_ms` ahead."""


class RecordedClocks:
    """The clocks of a target; every change is recorded. Implements `nemesis.hosts.Clocks`.

    The rows say what was requested. The proof of the fault says what the clock really showed.
    """

    def __init__(
        self, clocks: Clocks, append_row: Callable[..., object], now_ns: Callable[[], int]
    ) -> None:
        """`append_row` takes a row of CLUSTER by column names, from any thread."""
        self._clocks = clocks
        self._append_row = append_row
        self._now_ns = now_ns

    def skew(self, node: int, layer: str, offset_ms: float) -> None:
        """See the protocol."""
        before_ms = self._clocks.requested_offset_ms(node)
        self._clocks.skew(node, layer, offset_ms)
        self._record_change(node, before_ms)

    def unskew(self, node: int, layer: str) -> None:
        """See the protocol."""
        before_ms = self._clocks.requested_offset_ms(node)
        self._clocks.unskew(node, layer)
        self._record_change(node, before_ms)

    def requested_offset_ms(self, node: int, layer: str = "") -> float:
        """See the protocol."""
        return self._clocks.requested_offset_ms(node, layer)

    def read(self, node: int) -> ClockReading | None:
        """See the protocol."""
        return self._clocks.read(node)

    def _record_change(self, node: int, before_ms: float) -> None:
        ahead_ms = self._clocks.requested_offset_ms(node)
        if ahead_ms != before_ms:
            row: dict[str, Any] = {"at_ns": self._now_ns(), "kind": CLOCK, "node": node}
            self._append_row(**row, ahead_ms=ahead_ms)
