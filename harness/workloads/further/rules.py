"""What the members and producers of further workloads do, whatever their client library is.

Pure: the stop, the clock and the randomness come from outside.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from harness.plans.workloads import TransactionWorkload
from harness.workloads.clients.client_history import ClientHistory
from harness.workloads.clients.reads import Read
from nodes.ids import TopicPartition

READ_AT_A_TIME: Final = 500
"""How many records a member that only reads takes at once."""
COPIED_AT_A_TIME: Final = 100
"""How many records a member copies at once."""
COMMIT_S: Final = 0.5
"""How often a member that reads commits."""
ABORTS: Final = 0.05
"""Share of the transactions that a copying member aborts without a reason."""
LEAVES: Final = 0.5
"""Share of the members that leave the group at their end; the others vanish."""


class Stop(Protocol):
    """An event of threads or of coroutines."""

    def is_set(self) -> bool:
        """Whether the workload shall end."""
        ...


class Taken(Protocol):
    """A record that a member took."""

    @property
    def read(self) -> Read:
        """The record."""
        ...

    @property
    def place(self) -> TopicPartition:
        """The record's partition."""
        ...


class Patience:
    """How long calls are repeated: until the stop and `drain_s` after it, by a clock of seconds."""

    def __init__(self, stop: Stop, drain_s: float, clock: Callable[[], float]) -> None:
        self._stop = stop
        self._drain_s = drain_s
        self._clock = clock
        self._until_s: float | None = None

    @property
    def over(self) -> bool:
        """Whether nothing is repeated any more."""
        if not self._stop.is_set():
            return False
        if self._until_s is None:
            self._until_s = self._clock() + self._drain_s
        return self._clock() >= self._until_s


def member_life_s(life_s: float, rng: random.Random, *, replaceable: bool) -> float:
    """Return how long a member lives, about `life_s`; for ever if that is 0, or if no other client
    may take its place."""
    return life_s * rng.uniform(0.5, 1.5) if life_s and replaceable else float("inf")


def leaves(stop: Stop, rng: random.Random) -> bool:
    """Return whether a member leaves the group at its end."""
    return stop.is_set() or rng.random() < LEAVES


class Place(NamedTuple):
    """Where a transaction writes, and how many records."""

    topic: str
    partition: int
    records: int


def places_of(
    wanted: TransactionWorkload, own: str, partitions: Mapping[str, int], rng: random.Random
) -> list[Place]:
    """Return where a transaction writes: to some partitions of its producer's `own` topic and of
    others. partitions: the number of each topic. Each of the topics gets a record."""
    others = [topic for topic in partitions if topic != own]
    topics = [own, *rng.sample(others, wanted.topics_each - 1)]
    chosen = []
    for topic in topics:
        count = min(wanted.partitions, partitions[topic], wanted.records)
        chosen.append([(topic, each) for each in rng.sample(range(partitions[topic]), count)])
    most = max(map(len, chosen))
    in_turn = [each[turn] for turn in range(most) for each in chosen if turn < len(each)]
    places = in_turn[: wanted.records]
    each, more = divmod(wanted.records, len(places))
    return [Place(*place, each + (index < more)) for index, place in enumerate(places)]


def positions_behind(taken: Iterable[Taken]) -> dict[TopicPartition, int]:
    """Return the offset behind the last of these records in each partition."""
    return {each.place: each.read.offset + 1 for each in taken}


def copies_of(
    taken: Iterable[Taken], history: ClientHistory, partitions: int
) -> Iterator[tuple[int, int]]:
    """Return the output partition and the value of each record that this run wrote. The copies of
    a partition are in one of the output's `partitions`."""
    for each in taken:
        value, _ = history.codec.decode(each.read.payload)
        if value is not None:
            yield each.read.partition % partitions, value
