"""The controller measures the brokers' sessions with its wall clock instead of monotonic time.

A wall clock that is set forward ends all sessions at once, because a pause of the controller itself
is not subtracted here. A wall clock that is set back keeps the sessions of dead brokers, and their
partitions have no leader for that long.
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
"""The wall clock of the node that a loop runs: a simulated world has many nodes in one process."""
_make = QuorumMember.__init__


def init(self: QuorumMember, *given: Any, wall_clock: Callable[[], int], **named: Any) -> None:
    """Record the node's wall clock too."""
    _CLOCKS[asyncio.get_running_loop()] = wall_clock
    _make(self, *given, wall_clock=wall_clock, **named)


def now_ms() -> float:
    """Return the wall clock's time."""
    return float(_CLOCKS[asyncio.get_running_loop()]())


def extend_all(self: BrokerSessions, stall_ms: float, now_ms: float) -> None:
    """Do not extend any session."""


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return undo_all(
        patch(QuorumMember, __init__=init),
        patch(controller, now_ms=now_ms),
        patch(brokers, now_ms=now_ms),
        patch(BrokerSessions, extend_all=extend_all),
    )


if __name__ == "__main__":
    run(apply)
