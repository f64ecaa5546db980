"""A leader takes a smaller ISR for granted as soon as it has proposed it.

The high watermark has to wait for the maximal ISR, committed or proposed: the controller may refuse
the change, may never hear of it, or may elect whom the leader has just left out.
"""

from harness.zoo.mutants.patching import Undo, patch, run, together
from nodes.ids import NodeId
from nodes.replication.partition import IsrProposal, PartitionState
from nodes.server.replicas.isr import IsrManager
from nodes.server.replicas.replica import Replica

BUG = "the high watermark over an uncommitted ISR"
SOURCES = ("KIP-497",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def maximal_isr(self: PartitionState) -> frozenset[NodeId]:
    """What was proposed, not what is."""
    if self.proposal is None:
        return self.isr
    return frozenset(member for member, _ in self.proposal.isr)


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound = IsrManager._enqueue

    def enqueue(self: IsrManager, replica: Replica, proposal: IsrProposal | None) -> None:
        """Propose, and go on at once."""
        sound(self, replica, proposal)
        if proposal is not None:
            replica.advance()

    return together(
        patch(PartitionState, maximal_isr=property(maximal_isr)),
        patch(IsrManager, _enqueue=enqueue),
    )


if __name__ == "__main__":
    run(apply)
