"""What clients count of themselves, and how far they go back: the same for every client."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

REWIND_RECORDS: Final = 1_000
"""How far a consumer goes back after it was told that the log below its position was cut."""

RECENT_LATENCIES: Final = 4_096


@dataclass(slots=True)
class Tally:
    """What one client did so far; read by other threads, written by its own."""

    sent: int = 0
    acked: int = 0
    failed: int = 0
    info: int = 0
    read: int = 0
    latencies_ns: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_LATENCIES))
    last_error: str | None = None
