"""A follower that is fenced, or about to stop, returns to the ISR as long as it fetches.

The controller has just removed it, so that no write waits for it when it is gone. Neither the
leader nor the controller checks whether it may be a member (KIP-841). When it stops, each acks=all
write waits for it until it lags.
"""

from collections.abc import Callable

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.controller import isr
from nodes.controller.isr import AlterIsrRequest
from nodes.ids import NodeId, Offset
from nodes.metadata.image import ClusterImage, PartitionImage
from nodes.replication.partition import IsrProposal, PartitionState
from nodes.server.requests.fetch.partitions import FetchPartition
from nodes.server.requests.fetch.read import FetchParams, PartitionReader

BUG = "a fenced member is added again"
SOURCES = ("KIP-841", "KAFKA-13916")
SHOWS = ("unavailable",)


def check_members(image: ClusterImage, partition: PartitionImage, request: AlterIsrRequest) -> None:
    """Accept all members that the leader proposes."""


def may_join_isr(self: PartitionReader, partition: FetchPartition, params: FetchParams) -> bool:
    """Whether it is out of the ISR, and be it on its way out."""
    replica = partition.replica
    return params.is_follower and (replica is None or params.replica_id not in replica.state.isr)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = PartitionState.grown_isr

    def grown_isr(
        self: PartitionState,
        replica: NodeId,
        leader_end: Offset,
        eligible: Callable[[NodeId], bool],
    ) -> IsrProposal | None:
        """Treat all brokers as eligible."""
        return original(self, replica, leader_end, lambda _: True)

    return undo_all(
        patch(PartitionState, grown_isr=grown_isr),
        patch(PartitionReader, may_join_isr=may_join_isr),
        patch(isr, _check_members=check_members),
    )


if __name__ == "__main__":
    run(apply)
