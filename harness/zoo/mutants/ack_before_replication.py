"""The leader answers acks=all as soon as its own log has the record, as if it were acks=1.

acks=all promises that each in-sync replica has the record. A leader that answers before the record
is committed loses acknowledged writes when another replica leads without them. Redpanda once
returned offsets to clients that its group had not committed yet.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Epoch, Offset
from nodes.replication.partition import PartitionState, ProduceStatus, Role

BUG = "answered before it is committed"
SOURCES = ("Redpanda 3003",)
SHOWS = ("lost-write", "inconsistent-offset")


def acknowledge(
    self: PartitionState, leader_epoch: Epoch, required: Offset, leader_end: Offset
) -> ProduceStatus:
    """Return DONE as soon as the leader's own log has the record."""
    leads = self.role is Role.LEADER and leader_epoch == self.leader_epoch
    return ProduceStatus.OK if leads else ProduceStatus.NOT_LEADER


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(PartitionState, acknowledge=acknowledge)


if __name__ == "__main__":
    run(apply)
