"""When a producer's next send is due, and where it goes. Pure: the time comes in as an argument."""

from typing import Final

MAX_BACKLOG_S: Final = 0.1

SENDS_PER_POLL: Final = 32
"""Sends in a row before outcomes are looked at."""

CONNECT_RETRY_S: Final = 0.2
"""Between two attempts to make a client while no broker answers."""


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


def free_partition(
    in_flight: dict[int, int], position: int, partitions: int, share: int
) -> int | None:
    """The next partition from `position` on, round-robin, with less than `share` in flight."""
    for step in range(partitions):
        partition = (position + step) % partitions
        if in_flight.get(partition, 0) < share:
            return partition
    return None
