"""The counters of a client, and how far a consumer goes back; the same for every client."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from harness.workloads.clients.outcomes import Outcome

REWIND_RECORDS: Final = 1_000
"""How many records a consumer goes back when the log was truncated below its position."""

RECENT_LATENCIES: Final = 4_096


@dataclass(slots=True)
class Tally:
    """The counters of one client. Its own thread writes them, and other threads read them."""

    sent: int = 0
    acked: int = 0
    failed: int = 0
    info: int = 0
    read: int = 0
    latencies_ns: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_LATENCIES))
    last_error: str | None = None

    def ended(self, outcome: Outcome, took_ns: int | None) -> None:
        """Count the outcome of a send that took so long."""
        match outcome:
            case Outcome.OK:
                assert took_ns is not None
                self.acked += 1
                self.latencies_ns.append(took_ns)
            case Outcome.FAIL:
                self.failed += 1
            case Outcome.INFO:
                self.info += 1
