"""A follower that is fenced, or about to stop, is taken back into the ISR as long as it fetches.

The controller has just taken it out, so that nobody waits for it when it is gone; leader and
controller both forget to ask whether it may be in (KIP-841). Then it goes, and every acks=all write
waits for it until it lags.
"""

from collections.abc import Callable

from harness.zoo.mutants.patching import Undo, patch, run, together
from nodes.controller import isr
from nodes.controller.isr import IsrRequest
from nodes.ids import NodeId, Offset
from nodes.metadata.image import ClusterImage, PartitionImage
from nodes.replication.partition import IsrProposal, PartitionState
from nodes.server.requests.fetch.partitions import Part
from nodes.server.requests.fetch.read import PartReader, Reader

BUG = "a fenced member is added again"
SOURCES = ("KIP-841", "KAFKA-13916")
SHOWS = ("unavailable",)


def check_members(image: ClusterImage, partition: PartitionImage, request: IsrRequest) -> None:
    """Whoever the leader says."""


def unsettled(self: PartReader, part: Part, reader: Reader) -> bool:
    """Whether it is out of the ISR, and be it on its way out."""
    replica = part.replica
    return reader.is_follower and (replica is None or reader.node not in replica.state.isr)


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound = PartitionState.grown_isr

    def grown_isr(
        self: PartitionState,
        replica: NodeId,
        leader_end: Offset,
        eligible: Callable[[NodeId], bool],
    ) -> IsrProposal | None:
        """Everybody is eligible."""
        return sound(self, replica, leader_end, lambda _: True)

    return together(
        patch(PartitionState, grown_isr=grown_isr),
        patch(PartReader, unsettled=unsettled),
        patch(isr, _check_members=check_members),
    )


if __name__ == "__main__":
    run(apply)
