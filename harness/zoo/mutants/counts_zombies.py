"""A follower's fetch in an older epoch is refused, but what it claims to have is counted.

Offsets mean something only together with an epoch. The follower's records at those offsets are of
another leader: the new one commits records that this follower does not have, and that it will cut
what it has instead does not help when it is elected first.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.server.replicas.replica import Replica
from nodes.server.requests.fetch.partitions import FetchPartition
from nodes.server.requests.fetch.read import FetchParams, PartitionReader

BUG = "the high watermark by an old epoch's fetch"
SOURCES = ("KIP-101", "KIP-595")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound = PartitionReader.matching_replica

    def matching_replica(
        self: PartitionReader, partition: FetchPartition, params: FetchParams
    ) -> Replica | None:
        """Also the replica of whose present epoch the follower has not heard."""
        found = sound(self, partition, params)
        replica = partition.replica
        if found is not None or replica is None or params.replica_id not in replica.state.followers:
            return found
        behind = 0 <= partition.leader_epoch < replica.state.leader_epoch
        return replica if behind and partition.offset <= replica.log.end_offset else None

    return patch(PartitionReader, matching_replica=matching_replica)


if __name__ == "__main__":
    run(apply)
