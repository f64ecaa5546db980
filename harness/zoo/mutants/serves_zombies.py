"""A leader serves followers of older epochs, and takes them at their word about what they have.

Before KIP-320 a follower that never heard of an epoch went on fetching at its own offset when its
leader led again. It keeps what the others have cut, takes the new records behind it, and when it
learns of the new epoch its last record is of that epoch: nothing is left to tell that they differ.
"""

from kio.schema.errors import ErrorCode

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.ids import NO_EPOCH
from nodes.log.divergence import EpochEnd
from nodes.server.replicas.replica import Replica
from nodes.server.requests import offsets
from nodes.server.requests.fetch import read
from nodes.server.requests.fetch.partitions import FetchPartition

BUG = "zombie follower"
SOURCES = ("KAFKA-6880", "KIP-320")
SHOWS = ("divergent-replicas", "truncated-read", "inconsistent-offset", "lost-write")


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound_divergence = read._diverging

    def leadership_error(replica: Replica, epoch: int, *, leader_only: bool = True) -> ErrorCode:
        """An older epoch is as good as none."""
        known = NO_EPOCH if epoch < replica.state.leader_epoch else epoch
        return offsets.leadership_error(replica, known, leader_only=leader_only)

    def diverging(replica: Replica, partition: FetchPartition) -> EpochEnd | None:
        """Only those are compared who have just become followers in this epoch."""
        if partition.leader_epoch < replica.state.leader_epoch:
            return None
        return sound_divergence(replica, partition)

    return undo_all(
        patch(read, leadership_error=leadership_error),
        patch(read, _diverging=diverging),
    )


if __name__ == "__main__":
    run(apply)
