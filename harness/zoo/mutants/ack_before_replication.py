"""acks=all answered as soon as the leader has the record, as if it were acks=1.

The promise of acks=all is that every in-sync replica has the record. A leader that answers before
it is committed loses acknowledged writes as soon as another replica leads without them; Redpanda
once told clients offsets of what its group had not committed yet.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Epoch, Offset
from nodes.replication.partition import Ack, PartitionState, Role

BUG = "answered before it is committed"
SOURCES = ("Redpanda 3003",)
SHOWS = ("lost-write", "inconsistent-offset")


def acknowledge(
    self: PartitionState, leader_epoch: Epoch, required: Offset, leader_end: Offset
) -> Ack:
    """DONE as soon as the leader's own log has it."""
    leads = self.role is Role.LEADER and leader_epoch == self.leader_epoch
    return Ack.DONE if leads else Ack.NOT_LEADER


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(PartitionState, acknowledge=acknowledge)


if __name__ == "__main__":
    run(apply)
