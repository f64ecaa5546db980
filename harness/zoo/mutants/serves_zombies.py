"""A leader serves followers in older epochs, and believes what they claim to have.

Before KIP-320 a follower that missed an epoch kept fetching at its own offset when its old leader
led again. It keeps what the others have truncated, and appends the new records behind it. When it
learns of the new epoch, its last record is of that epoch: nothing shows that the logs differ.
"""

from kio.schema.errors import ErrorCode

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.ids import NO_EPOCH
from nodes.log.divergence import EpochEnd
from nodes.server.replicas.replica import Replica
from nodes.server.requests import list_offsets
from nodes.server.requests.fetch import read
from nodes.server.requests.fetch.partitions import FetchPartition

BUG = "zombie follower"
SOURCES = ("KAFKA-6880", "KIP-320")
SHOWS = ("divergent-replicas", "truncated-read", "inconsistent-offset", "lost-write")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original_divergence = read._diverging

    def leadership_error(replica: Replica, epoch: int, *, leader_only: bool = True) -> ErrorCode:
        """Treat an older epoch like no epoch."""
        known = NO_EPOCH if epoch < replica.state.leader_epoch else epoch
        return list_offsets.leadership_error(replica, known, leader_only=leader_only)

    def diverging(replica: Replica, partition: FetchPartition) -> EpochEnd | None:
        """Compare only followers that are already in the current epoch."""
        if partition.leader_epoch < replica.state.leader_epoch:
            return None
        return original_divergence(replica, partition)

    return undo_all(
        patch(read, leadership_error=leadership_error),
        patch(read, _diverging=diverging),
    )


if __name__ == "__main__":
    run(apply)
