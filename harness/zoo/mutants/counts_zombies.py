"""The leader refuses a fetch in an older epoch, but counts the follower's offset.

An offset has a meaning only together with an epoch. The follower's records at those offsets come
from another leader. So the new leader commits records that the follower does not have; if the
follower is elected before it truncates its log, they are lost.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.server.replicas.replica import Replica
from nodes.server.requests.fetch.partitions import FetchPartition
from nodes.server.requests.fetch.read import FetchParams, PartitionReader

BUG = "the high watermark by an old epoch's fetch"
SOURCES = ("KIP-101", "KIP-595")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = PartitionReader.matching_replica

    def matching_replica(
        self: PartitionReader, partition: FetchPartition, params: FetchParams
    ) -> Replica | None:
        """Also return the replica for a follower that has not heard of the current epoch."""
        found = original(self, partition, params)
        replica = partition.replica
        if found is not None or replica is None or params.replica_id not in replica.state.followers:
            return found
        behind = 0 <= partition.leader_epoch < replica.state.leader_epoch
        return replica if behind and partition.offset <= replica.log.end_offset else None

    return patch(PartitionReader, matching_replica=matching_replica)


if __name__ == "__main__":
    run(apply)
