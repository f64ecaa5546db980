"""A follower does not compare its log with a leader that it fetched from last.

It may have missed another leader's epoch in between, in which the first leader truncated its log
(KAFKA-7164). The follower keeps its own records at those offsets, and appends the new records
behind them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.ids import NodeId, TopicPartition
from nodes.server.follower.fetch_session import FetchRequestData, FollowedPartition
from nodes.server.follower.fetcher import ReplicaFetcher, ReplicaFetcherManager
from nodes.server.replicas.replica import Replica

BUG = "the same leader again, no truncation"
SOURCES = ("KAFKA-7164",)
SHOWS = ("divergent-replicas", "truncated-read", "inconsistent-offset", "lost-write")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original_update, original_request = (
        ReplicaFetcherManager.update_leaders,
        ReplicaFetcher._request,
    )
    original_process = ReplicaFetcher._process_partition

    def update_leaders(
        self: ReplicaFetcherManager, changes: Mapping[TopicPartition, NodeId | None]
    ) -> None:
        """Record for each partition whether the follower fetched from that leader last."""
        for partition, leader in changes.items():
            replica = self._replicas.find(partition)
            if replica is not None:
                notes = vars(replica.state)
                if leader is None:  # this node leads
                    notes.pop("fetched_from", None)
                notes["same_leader"] = leader is not None and notes.get("fetched_from") == leader
        original_update(self, changes)

    def process_partition(
        self: ReplicaFetcher, replica: Replica, followed: FollowedPartition, answer: Any
    ) -> bool:
        """Record which leader answered."""
        if answer.error_code is ErrorCode.none:
            vars(replica.state)["fetched_from"] = self._leader
        return original_process(self, replica, followed, answer)

    def request(self: ReplicaFetcher, data: FetchRequestData) -> Any:
        """Leave out the last epoch of partitions with the same leader, so that no logs are
        compared.
        """
        asked = original_request(self, data).entity
        blind = {
            (each.topic_id, each.partition.partition)
            for each in data.to_send
            if (replica := self._replicas.find(each.partition)) is not None
            and vars(replica.state).get("same_leader")
        }
        topics = tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(part, last_fetched_epoch=i32(-1))
                    if (topic.topic_id, part.partition) in blind
                    else part
                    for part in topic.partitions
                ),
            )
            for topic in asked.topics
        )
        return replace(asked, topics=topics)

    return undo_all(
        patch(ReplicaFetcherManager, update_leaders=update_leaders),
        patch(ReplicaFetcher, _request=request, _process_partition=process_partition),
    )


if __name__ == "__main__":
    run(apply)
