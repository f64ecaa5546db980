"""The known leaders of the partitions of one topic. Pure.

An older leader epoch never replaces a newer one (KIP-320), so that the metadata of a replaced
leader does not bring the client back to it. A topic with another id is another topic, and its
epochs begin anew.
"""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID


class Leader(NamedTuple):
    """A partition's leader (-1: none) and its leader epoch (-1: unknown)."""

    node: int
    epoch: int


class Leaders:
    """The leaders of one topic's partitions."""

    def __init__(self) -> None:
        self._by_partition: dict[int, Leader] = {}
        self.topic_id: UUID | None = None
        """The topic's id; None while no broker has named it."""

    @property
    def known(self) -> Mapping[int, Leader]:
        """The newest leader of every known partition."""
        return self._by_partition

    def get(self, partition: int) -> Leader | None:
        """Return the partition's leader; None while there is none."""
        leader = self._by_partition.get(partition)
        return None if leader is None or leader.node < 0 else leader

    def of_topic(self, topic_id: UUID | None) -> None:
        """Say that the next updates are about the topic with this id (None: unknown)."""
        if topic_id is not None and topic_id != self.topic_id:
            if self.topic_id is not None:
                self._by_partition.clear()
            self.topic_id = topic_id

    def update(self, partition: int, leader: Leader) -> bool:
        """Add what a broker reports; return whether it changed something."""
        before = self._by_partition.get(partition)
        if before is not None and 0 <= leader.epoch < before.epoch:
            return False
        if before == leader:
            return False
        self._by_partition[partition] = leader
        return True
