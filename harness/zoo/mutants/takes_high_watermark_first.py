"""A new follower takes the leader's high watermark before it truncates its own tail.

The answer that says where the logs diverge also has the leader's high watermark. While the tail is
there, consumers that read from this replica get it as committed (KAFKA-14704). In Kafka another
thread can run in between; in this broker nothing can, so the mutant delays the truncation to the
next answer.
"""

from typing import Any

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Offset
from nodes.server.follower.fetch_session import FollowedPartition
from nodes.server.follower.fetcher import ReplicaFetcher
from nodes.server.replicas.replica import Replica

BUG = "the leader's high watermark before the truncation"
SOURCES = ("KAFKA-14704",)
SHOWS = ("truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = ReplicaFetcher._process_partition

    def process_partition(
        self: ReplicaFetcher, replica: Replica, followed: FollowedPartition, answer: Any
    ) -> bool:
        """Take the high watermark first, and truncate only when the leader repeats the
        divergence.
        """
        leader_hw, notes = Offset(answer.high_watermark), vars(replica.state)
        if replica.state.follow_high_watermark(leader_hw, replica.log.end_offset):
            replica.watchers.committed()
        parted = answer.diverging_epoch.end_offset >= 0 or answer.diverging_epoch.epoch >= 0
        if parted and not notes.pop("told_of_parting", False):
            notes["told_of_parting"] = True
            self.session.position_changed(followed)
            return False
        return original(self, replica, followed, answer)

    return patch(ReplicaFetcher, _process_partition=process_partition)


if __name__ == "__main__":
    run(apply)
