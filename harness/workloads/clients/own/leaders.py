"""Who leads the partitions of one topic, as far as brokers have said. Pure.

What an older leader epoch says never replaces a newer one (KIP-320): a deposed leader's metadata
must not send us back to it. A topic with another id is another topic, whose epochs begin anew.
"""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID


class Leader(NamedTuple):
    """A partition's leader (-1: none) and the epoch in which it leads (-1: not told)."""

    node: int
    epoch: int


class Leaders:
    """See the module."""

    def __init__(self) -> None:
        self._by_partition: dict[int, Leader] = {}
        self._topic_id: UUID | None = None

    @property
    def known(self) -> Mapping[int, Leader]:
        """Every partition that was heard of."""
        return self._by_partition

    def get(self, partition: int) -> Leader | None:
        """The partition's leader; None while there is none."""
        leader = self._by_partition.get(partition)
        return None if leader is None or leader.node < 0 else leader

    def of_topic(self, topic_id: UUID | None) -> None:
        """What follows is of the topic with this id (None: the broker does not tell)."""
        if topic_id is not None and topic_id != self._topic_id:
            if self._topic_id is not None:
                self._by_partition.clear()
            self._topic_id = topic_id

    def heard(self, partition: int, leader: Leader) -> bool:
        """Take what a broker says; whether that is news."""
        before = self._by_partition.get(partition)
        if before is not None and 0 <= leader.epoch < before.epoch:
            return False
        if before == leader:
            return False
        self._by_partition[partition] = leader
        return True
