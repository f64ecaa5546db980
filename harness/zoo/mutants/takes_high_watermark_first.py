"""A new follower takes over the leader's high watermark before it has cut its own tail.

The answer that tells it where the logs part tells the leader's high watermark as well. For as long
as the tail is there, consumers who read from this replica are given it as committed (KAFKA-14704).
Kafka has threads to do so in between; here nothing comes between the two, and so the truncation
waits for the next answer.
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
    """Break the broker; returns what mends it."""
    sound = ReplicaFetcher._process_partition

    def process_partition(
        self: ReplicaFetcher, replica: Replica, followed: FollowedPartition, answer: Any
    ) -> bool:
        """The high watermark, then the rest: a truncation only when it is told once more."""
        leader_hw, notes = Offset(answer.high_watermark), vars(replica.state)
        if replica.state.follow_high_watermark(leader_hw, replica.log.end_offset):
            replica.watchers.committed()
        parted = answer.diverging_epoch.end_offset >= 0 or answer.diverging_epoch.epoch >= 0
        if parted and not notes.pop("told_of_parting", False):
            notes["told_of_parting"] = True
            self.session.position_changed(followed)
            return False
        return sound(self, replica, followed, answer)

    return patch(ReplicaFetcher, _process_partition=process_partition)


if __name__ == "__main__":
    run(apply)
