"""With ZooKeeper, a broker takes a partition's state only if its leader epoch is newer.

When the controller takes a dead follower out of the ISR, the leader stays, and so does the leader
epoch. The leader does not take the new version of the state, so each of its ISR changes is refused
for ever: "cached zkVersion not equal to that in zookeeper" (KAFKA-2729).
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.metadata.image import PartitionImage
from nodes.zookeeper import broker_view

BUG = "a state of the same leader epoch is ignored"
SOURCES = ("KAFKA-2729",)
SHOWS = ("unavailable",)


def is_newer(known: PartitionImage | None, leader_epoch: int, partition_epoch: int) -> bool:
    """Whether the leader epoch is newer."""
    return known is None or known.leader_epoch < leader_epoch


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(broker_view, is_newer=is_newer)


if __name__ == "__main__":
    run(apply)
