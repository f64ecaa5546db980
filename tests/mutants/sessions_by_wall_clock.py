"""The controller measures the brokers' sessions by its wall clock instead of by monotonic time.

A wall clock that is set forward ends every session at once, since here no silence is forgiven in
which the controller itself seems to have stood still; one that is set back keeps the dead ones.
"""

import sys
import time

from nodes.__main__ import main
from nodes.control.sessions import BrokerSessions
from nodes.server import controller_brokers, controller_io


def now_ms() -> float:
    """The time that somebody may set."""
    return time.time() * 1000


def forgive(self: BrokerSessions, stall_ms: float, now_ms: float) -> None:
    """Nobody is."""


if __name__ == "__main__":
    controller_io.now_ms = now_ms
    controller_brokers.now_ms = now_ms  # type: ignore[attr-defined]
    BrokerSessions.forgive = forgive  # type: ignore[method-assign]
    sys.exit(main())
