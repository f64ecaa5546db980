"""What faults did to wall clocks, as rows of the record: every setting, when it was made."""

from collections.abc import Callable
from typing import Any, Final

from nemesis.hosts import Clocks, Reading

CLOCK: Final = "clock"
"""Kind of the rows of CLUSTER: from `at_ns` on, the clock of `node` was to be `ahead_ms` ahead."""


class RecordedClocks:
    """The clocks of a target, which tell of every change. See `nemesis.hosts.Clocks`.

    What a clock really showed is in the proof of the fault that set it.
    """

    def __init__(
        self, clocks: Clocks, tell: Callable[..., object], now_ns: Callable[[], int]
    ) -> None:
        """`tell` takes a row of CLUSTER by column names, from any thread."""
        self._clocks = clocks
        self._tell = tell
        self._now_ns = now_ns

    def skew(self, node: int, layer: str, offset_ms: float) -> None:
        """See the protocol."""
        before_ms = self._clocks.asked_ms(node)
        self._clocks.skew(node, layer, offset_ms)
        self._told(node, before_ms)

    def unskew(self, node: int, layer: str) -> None:
        """See the protocol."""
        before_ms = self._clocks.asked_ms(node)
        self._clocks.unskew(node, layer)
        self._told(node, before_ms)

    def asked_ms(self, node: int, layer: str = "") -> float:
        """See the protocol."""
        return self._clocks.asked_ms(node, layer)

    def shown(self, node: int) -> Reading | None:
        """See the protocol."""
        return self._clocks.shown(node)

    def _told(self, node: int, before_ms: float) -> None:
        ahead_ms = self._clocks.asked_ms(node)
        if ahead_ms != before_ms:
            row: dict[str, Any] = {"at_ns": self._now_ns(), "kind": CLOCK, "node": node}
            self._tell(**row, ahead_ms=ahead_ms)
