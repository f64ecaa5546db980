"""A replica joins the ISR at the high watermark, though the leader's epoch begins beyond it.

A new leader's high watermark is stale: it lags behind what the one before it had committed. A
replica at that offset lacks acknowledged records; elected right after it joined, it loses them.
"""

from collections.abc import Callable

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import NodeId, Offset
from nodes.replication.partition import IsrProposal, PartitionState

BUG = "in sync below the epoch's start"
SOURCES = ("KAFKA-7128",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound = PartitionState.grown_isr

    def grown_isr(
        self: PartitionState,
        replica: NodeId,
        leader_end: Offset,
        eligible: Callable[[NodeId], bool],
    ) -> IsrProposal | None:
        """As if the epoch had begun at the log's."""
        start, self.epoch_start = self.epoch_start, Offset(0)
        try:
            return sound(self, replica, leader_end, eligible)
        finally:
            self.epoch_start = start

    return patch(PartitionState, grown_isr=grown_isr)


if __name__ == "__main__":
    run(apply)
