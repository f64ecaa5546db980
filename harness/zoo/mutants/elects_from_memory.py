"""The controller with ZooKeeper elects from the ISR that it remembers, whatever is written by then.

A leader writes its ISR itself, and the controller hears of it later. A follower that has left the
ISR meanwhile becomes the leader without what was acknowledged after that.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.metadata.image import PartitionImage
from nodes.zookeeper import paths, writes
from nodes.zookeeper.operations import SetData

BUG = "a leader is elected from a stale ISR"
SOURCES = ("Kafka's conditional writes to ZooKeeper", "KIP-497")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def change_of_state(topic: str, number: int, before: PartitionImage, data: bytes) -> SetData:
    """A write of the next state without a condition."""
    return SetData(paths.state(topic, number), data)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(writes, change_of_state=change_of_state)


if __name__ == "__main__":
    run(apply)
