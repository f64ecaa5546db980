"""The controller measures the brokers' sessions by its wall clock instead of by monotonic time.

A wall clock that is set forward ends every session at once, since here no silence is forgiven in
which the controller itself seems to have stood still; one that is set back keeps the dead ones, and
the partitions that they led have no leader for as long.
"""

import time

from nodes.control.sessions import BrokerSessions
from nodes.server import controller_brokers, controller_io
from tests.mutants.patching import Undo, patch, run, together

BUG = "sessions by a clock that people set"
SOURCES = ("clock-driven leases",)
SHOWS = ("unavailable",)


def now_ms() -> float:
    """The time that somebody may set."""
    return time.time() * 1000


def forgive(self: BrokerSessions, stall_ms: float, now_ms: float) -> None:
    """Nobody is."""


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return together(
        patch(controller_io, now_ms=now_ms),
        patch(controller_brokers, now_ms=now_ms),
        patch(BrokerSessions, forgive=forgive),
    )


if __name__ == "__main__":
    run(apply)
