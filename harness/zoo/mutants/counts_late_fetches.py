"""A leader counts a fetch that its follower sent before it died and registered again.

The network delivers it that late. The follower has lost since what it had not flushed, and is in
sync without it: the leader commits records that the follower lacks (KIP-903).
"""

from dataclasses import replace

from kio.schema.errors import ErrorCode

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import BrokerEpoch
from nodes.server.requests.fetch.partitions import FetchPartition
from nodes.server.requests.fetch.read import FetchParams, PartitionReader

BUG = "a late fetch of an earlier incarnation is counted"
SOURCES = ("KIP-903",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = PartitionReader._serving_error

    def serving_error(
        self: PartitionReader, partition: FetchPartition, params: FetchParams
    ) -> ErrorCode:
        """Accept each broker epoch."""
        anyhow = replace(params, late=False, broker_epoch=BrokerEpoch(-1))
        return original(self, partition, anyhow)

    return patch(PartitionReader, _serving_error=serving_error)


if __name__ == "__main__":
    run(apply)
