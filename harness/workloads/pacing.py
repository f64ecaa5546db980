"""When a producer's next send is due, and to which partition it goes. Time comes from outside."""

from collections.abc import Callable
from typing import Final, Protocol

from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig

MAX_BACKLOG_S: Final = 0.1

SENDS_PER_POLL: Final = 32
"""How many sends follow each other before outcomes are handled."""

CONNECT_RETRY_S: Final = 0.2
"""The pause between two attempts to make a client while no broker answers."""


class Sender(Protocol):
    """The part of a producer that is used here."""

    @property
    def fatal(self) -> str | None:
        """Why it cannot send any more."""
        ...

    def send(self, partition: int) -> None:
        """Start one send."""
        ...


class Pace:
    """An even rate, `rate_per_s`; 0 means that a send is always due.

    A delayed producer catches up on MAX_BACKLOG_S at most, because a burst after a fault would
    measure itself.
    """

    __slots__ = ("_due_s", "_interval_s")

    def __init__(self, rate_per_s: float, now_s: float) -> None:
        if rate_per_s < 0:
            raise ValueError(f"a rate must not be negative: {rate_per_s}")
        self._interval_s = 1 / rate_per_s if rate_per_s else 0.0
        self._due_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until the next send is due; 0 when it is due."""
        return max(0.0, self._due_s - now_s) if self._interval_s else 0.0

    def sent(self, now_s: float) -> None:
        """Note that one send was made."""
        self._due_s = max(self._due_s + self._interval_s, now_s - MAX_BACKLOG_S)


def free_partition(
    in_flight: dict[int, int], position: int, partitions: int, share: int
) -> int | None:
    """Return the next partition from `position` on, in turn, with less than `share` in flight."""
    for step in range(partitions):
        partition = (position + step) % partitions
        if in_flight.get(partition, 0) < share:
            return partition
    return None


def _may_send(producer: Sender, sends: Sends) -> bool:
    return producer.fatal is None and not sends.complete


class RoundRobin:
    """Sends at the planned rate to the partitions in turn, with a bound of messages in flight.

    The bound is shared out evenly: a partition without a leader holds up only its own share.
    """

    def __init__(
        self, config: ClientConfig, now_s: Callable[[], float], first_partition: int
    ) -> None:
        self._now_s = now_s
        self._partitions = config.partitions
        self._limit = max(1, config.max_in_flight)
        self._share = max(1, config.max_in_flight // config.partitions)
        self._pace = Pace(config.rate_per_s, now_s())
        self._position = first_partition

    def send_due(self, producer: Sender, sends: Sends) -> int:
        """Make the sends that are due, up to SENDS_PER_POLL; return how many."""
        sent = 0
        while sent < SENDS_PER_POLL and self.wait_s() == 0:
            partition = free_partition(
                sends.in_flight, self._position, self._partitions, self._share
            )
            if partition is None or sends.pending >= self._limit or not _may_send(producer, sends):
                break
            producer.send(partition)
            self._pace.sent(self._now_s())
            self._position = partition + 1
            sent += 1
        return sent

    def wait_s(self) -> float:
        """Return the seconds until the next send is due; 0 when it is due."""
        return self._pace.wait_s(self._now_s())
