"""A follower whose leader is the one before does not compare logs, whatever came in between.

It may have missed an epoch of another leader, in which that leader's log was cut (KAFKA-7164). Its
own records at those offsets stay, and the next ones are put behind them.
"""

from collections.abc import Mapping
from dataclasses import replace

from kio.schema.fetch.v17.request import FetchRequest
from kio.static.primitive import i32

from nodes.ids import NodeId, TopicPartition
from nodes.server.fetcher import Fetcher, FetcherPool
from nodes.server.following import Plan
from tests.mutants.patching import Undo, patch, run, together

BUG = "the same leader again, no truncation"
SOURCES = ("KAFKA-7164",)
SHOWS = ("divergent-replicas", "truncated-read", "inconsistent-offset", "lost-write")


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound_follow, sound_request = FetcherPool.follow, Fetcher._request

    def follow(self: FetcherPool, changes: Mapping[TopicPartition, NodeId | None]) -> None:
        """Remember of each partition whether its leader is another one."""
        for partition, leader in changes.items():
            replica = self._replicas.find(partition)
            if replica is not None:
                same = leader is not None and self._leader_of.get(partition) == leader
                vars(replica.state)["same_leader"] = same
        sound_follow(self, changes)

    def request(self: Fetcher, plan: Plan) -> FetchRequest:
        """Without the last epoch of partitions whose leader is the same, nobody compares."""
        asked = sound_request(self, plan)
        blind = {
            (each.topic_id, each.partition.partition)
            for each in plan.named
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

    return together(patch(FetcherPool, follow=follow), patch(Fetcher, _request=request))


if __name__ == "__main__":
    run(apply)
