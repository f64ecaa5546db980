"""What the wall clock of a node tells an invariant: the ages that the node computes."""

from typing import Final, NamedTuple

LONG_MS: Final = 3_600_000
"""Longer than any run."""


class Clock(NamedTuple):
    """The wall clock of a node."""

    shown_ms: int
    """What it shows, in milliseconds since 1970."""
    changed: bool
    """Whether a fault ever changed the clock of any node."""

    def may_have_passed(self, timestamp_ms: int, period_ms: int) -> bool:
        """Return whether the node may have seen the period after the timestamp end."""
        return self.shown_ms - timestamp_ms >= period_ms or (self.changed and period_ms < LONG_MS)
