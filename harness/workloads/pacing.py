"""When a producer's next send is due. Pure: the time comes in as an argument."""

from typing import Final

MAX_BACKLOG_S: Final = 0.1


class Pace:
    """An even rate, `rate_per_s`; 0 means that a send is always due.

    A producer that was held up catches up on MAX_BACKLOG_S at most: a burst after a fault would
    measure itself.
    """

    __slots__ = ("_due_s", "_interval_s")

    def __init__(self, rate_per_s: float, now_s: float) -> None:
        if rate_per_s < 0:
            raise ValueError(f"a rate is not negative: {rate_per_s}")
        self._interval_s = 1 / rate_per_s if rate_per_s else 0.0
        self._due_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next send is due; 0 when it is."""
        return max(0.0, self._due_s - now_s) if self._interval_s else 0.0

    def sent(self, now_s: float) -> None:
        """One send was made."""
        self._due_s = max(self._due_s + self._interval_s, now_s - MAX_BACKLOG_S)
