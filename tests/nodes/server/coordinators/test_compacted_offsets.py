"""Committed offsets outlast the compaction of their topic, a kill and a failover."""

import asyncio

from nodes.ids import TopicPartition
from tests.support.nodes.cleaning import pairs_of
from tests.support.nodes.cluster import Cluster, eventually, running
from tests.support.nodes.group_requests import commit, committed

GROUPS, COMMITS = ("a", "b", "c"), 20
OFFSETS = TopicPartition("__consumer_offsets", 0)
PROPERTIES = {
    "offsets_topic_num_partitions": "1",
    "offsets_topic_replication_factor": "2",
    "offsets_topic_segment_bytes": "1500",
    "log_cleaner_min_cleanable_ratio": "0.01",
    "log_cleaner_backoff_ms": "30",
}


def records_on(cluster: Cluster, node: int) -> int:
    """How many records a node's log of the offsets has."""
    instance = cluster.nodes[node]
    assert instance is not None
    assert instance.broker is not None
    replica = instance.broker.replicas.find(OFFSETS)
    assert replica is not None
    return len(pairs_of(replica.log))


def test_offsets_outlast_compaction() -> None:
    async def main() -> None:
        async with running(2, **PROPERTIES) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=2)
            await cluster.leader("t", isr=2)
            for number in range(COMMITS):
                for group in GROUPS:
                    await commit(cluster, group, number)

            async def compacted() -> bool:
                return all(records_on(cluster, node) < 30 for node in cluster.ids)

            await eventually(compacted)
            wanted = {("t", 0): COMMITS - 1}
            assert [await committed(cluster, group) for group in GROUPS] == [wanted] * 3
            await cluster.restart_all()
            await cluster.in_service(2)

            async def loaded() -> bool:
                return [await committed(cluster, group) for group in GROUPS] == [wanted] * 3

            await eventually(loaded)
            leader = await cluster.leader(OFFSETS.topic, isr=2)
            await cluster.stop(leader)
            await eventually(loaded)

    asyncio.run(main())
