"""A replica joins the ISR at the high watermark, although the leader's epoch begins beyond it.

A new leader's high watermark is stale: it lags behind what the previous leader committed. A replica
at that offset lacks acknowledged records; if it is elected right after it joined, they are lost.
"""

from collections.abc import Callable

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import NodeId, Offset
from nodes.replication.partition import IsrProposal, PartitionState

BUG = "in sync below the epoch's start"
SOURCES = ("KAFKA-7128",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = PartitionState.grown_isr

    def grown_isr(
        self: PartitionState,
        replica: NodeId,
        leader_end: Offset,
        eligible: Callable[[NodeId], bool],
    ) -> IsrProposal | None:
        """Check as if the epoch had begun at the beginning of the log."""
        start, self.epoch_start = self.epoch_start, Offset(0)
        try:
            return original(self, replica, leader_end, eligible)
        finally:
            self.epoch_start = start

    return patch(PartitionState, grown_isr=grown_isr)


if __name__ == "__main__":
    run(apply)
