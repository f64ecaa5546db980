"""The controller measures the brokers' sessions by its wall clock instead of by monotonic time.

A wall clock that is set forward ends every session at once, since here no silence is forgiven in
which the controller itself seems to have stood still; one that is set back keeps the dead ones, and
the partitions that they led have no leader for as long.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.controller.sessions import BrokerSessions
from nodes.server.controller import brokers, controller
from nodes.server.quorum.member import QuorumMember

BUG = "sessions by a clock that people set"
SOURCES = ("clock-driven leases",)
SHOWS = ("unavailable",)


_CLOCKS: WeakKeyDictionary[asyncio.AbstractEventLoop, Callable[[], int]] = WeakKeyDictionary()
"""The wall clock of the node that a loop runs: a simulated world has many in one process."""
_make = QuorumMember.__init__


def init(self: QuorumMember, *given: Any, wall_clock: Callable[[], int], **named: Any) -> None:
    """Remember the node's wall clock, too."""
    _CLOCKS[asyncio.get_running_loop()] = wall_clock
    _make(self, *given, wall_clock=wall_clock, **named)


def now_ms() -> float:
    """The time that somebody may set."""
    return float(_CLOCKS[asyncio.get_running_loop()]())


def forgive(self: BrokerSessions, stall_ms: float, now_ms: float) -> None:
    """Nobody is."""


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return undo_all(
        patch(QuorumMember, __init__=init),
        patch(controller, now_ms=now_ms),
        patch(brokers, now_ms=now_ms),
        patch(BrokerSessions, forgive=forgive),
    )


if __name__ == "__main__":
    run(apply)
