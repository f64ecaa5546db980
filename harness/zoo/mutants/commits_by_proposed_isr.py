"""A leader uses a smaller ISR as soon as it has proposed it.

The high watermark must wait for the maximal ISR, committed or proposed: the controller may refuse
the change, may never receive it, or may elect a replica that the leader has just left out.
"""

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.ids import NodeId
from nodes.replication.partition import IsrProposal, PartitionState
from nodes.server.replicas.isr import IsrManager
from nodes.server.replicas.replica import Replica

BUG = "the high watermark over an uncommitted ISR"
SOURCES = ("KIP-497",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def maximal_isr(self: PartitionState) -> frozenset[NodeId]:
    """Return the proposed ISR instead of the maximal one."""
    if self.proposal is None:
        return self.isr
    return frozenset(member for member, _ in self.proposal.isr)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = IsrManager._enqueue

    def enqueue(self: IsrManager, replica: Replica, proposal: IsrProposal | None) -> None:
        """Propose, and continue at once."""
        original(self, replica, proposal)
        if proposal is not None:
            replica.advance()

    return undo_all(
        patch(PartitionState, maximal_isr=property(maximal_isr)),
        patch(IsrManager, _enqueue=enqueue),
    )


if __name__ == "__main__":
    run(apply)
