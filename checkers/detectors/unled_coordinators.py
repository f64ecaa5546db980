"""When a partition of an internal topic may have had no coordinator, because of damaged logs.

A broker does not lead a partition whose log it found damaged, unless an administrator accepts the
loss. If nobody else may lead it, its coordinator is missing, however long that lasts. Leaders and
faults are few, so this is plain Python.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.history.recorded_faults import Fault


@dataclass(frozen=True, slots=True)
class _Leadership:
    """Who may lead a partition from `at_ns` on: its leader, or without one its in-sync and its
    eligible replicas."""

    at_ns: int
    order: tuple[int, int]
    nodes: frozenset[int]


class UnledCoordinators:
    """The partitions of one topic that only replicas with damaged logs may lead."""

    def __init__(
        self, topic: str, rows: Iterable[Mapping[str, Any]], damage: Sequence[Fault]
    ) -> None:
        """rows: of kind leader and of this topic, with partition, leader, leader_epoch,
        partition_epoch, isr, elr, at_ns. damage: faults that lost or damaged disks or logs."""
        self._topic = topic
        self._damage = damage
        self._partitions: dict[int, list[_Leadership]] = defaultdict(list)
        for row in rows:
            self._partitions[row["partition"]].append(_leadership(row))

    def any_at(self, at_ns: int) -> bool:
        """Whether at least one of the partitions was such a one at that moment."""
        return any(
            self._may_lead(terms, at_ns) <= damaged
            for partition, terms in self._partitions.items()
            if (damaged := self._damaged(partition, at_ns))
        )

    def _damaged(self, partition: int, at_ns: int) -> frozenset[int]:
        hits = (f.losing(self._topic, partition) for f in self._damage if f.effective_ns <= at_ns)
        return frozenset().union(*hits)

    def _may_lead(self, terms: Sequence[_Leadership], at_ns: int) -> frozenset[int]:
        past = [term for term in terms if term.at_ns <= at_ns]
        return max(past, key=lambda term: term.order).nodes if past else frozenset()


def _leadership(row: Mapping[str, Any]) -> _Leadership:
    leader = row["leader"]
    led = leader is not None and leader >= 0
    nodes = [leader] if led else [*(row["isr"] or ()), *(row["elr"] or ())]
    epochs = (row["leader_epoch"], row["partition_epoch"])
    first, second = (-1 if epoch is None else epoch for epoch in epochs)
    return _Leadership(row["at_ns"], (first, second), frozenset(nodes))
