"""Committed offsets on whole clusters: every version, failover, deletion of topics."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.ids import NO_OFFSET
from nodes.server.apis import DELETE_TOPICS, OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from tests.support.nodes.cluster import Cluster, eventually, running
from tests.support.nodes.group_requests import commit, committed, coordinator_of

UNKNOWN_ID = UUID(int=77)


async def with_topic(cluster: Cluster, name: str = "t") -> UUID:
    """Create a topic of two partitions; return its id."""
    await cluster.create_topic(name, num_partitions=2, replication_factor=len(cluster.ids))
    await cluster.leader(name, isr=len(cluster.ids))
    topic_id = (await cluster.metadata(1, name)).topics[0].topic_id
    assert isinstance(topic_id, UUID)
    return topic_id


def offsets_of(topics: Any) -> list[tuple[int, int, str, ErrorCode]]:
    return [
        (row.partition_index, row.committed_offset, row.metadata, row.error_code)
        for topic in topics
        for row in topic.partitions
    ]


def test_offsets_are_committed_and_fetched_in_every_version() -> None:
    """A partition that does not exist is refused; the others are committed."""

    async def main() -> None:
        async with running(1) as cluster:
            topic_id = await with_topic(cluster)
            await commit(cluster, "g", 1)
            for version in range(2, 11):
                parts = [
                    {
                        "partition_index": number,
                        "committed_offset": version,
                        "committed_metadata": "m",
                    }
                    for number in (0, 7)
                ]
                answer = await cluster.ask(
                    1,
                    OFFSET_COMMIT,
                    version,
                    group_id="g",
                    retention_time=timedelta(milliseconds=-1),
                    topics=[{"name": "t", "topic_id": topic_id, "partitions": parts}],
                )
                codes = {p.partition_index: p.error_code for p in answer.topics[0].partitions}
                assert codes == {0: ErrorCode.none, 7: ErrorCode.unknown_topic_or_partition}
                assert await committed(cluster, "g") == {("t", 0): version}
            expected = [(0, 10, "m", ErrorCode.none), (1, NO_OFFSET, "", ErrorCode.none)]
            for version in range(1, 11):
                topics = [{"name": "t", "topic_id": topic_id, "partition_indexes": [0, 1]}]
                for wanted in (topics, None) if version > 1 else (topics,):
                    answer = await cluster.ask(
                        1,
                        OFFSET_FETCH,
                        version,
                        group_id="g",
                        topics=wanted,
                        groups=[{"group_id": "g", "topics": wanted}],
                    )
                    found = answer.groups[0].topics if version >= 8 else answer.topics
                    assert offsets_of(found) == (expected if wanted else expected[:1])

    asyncio.run(main())


def test_unknown_topic_ids_are_named_as_such() -> None:
    """In commits and in fetches."""

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)
            await commit(cluster, "g", 1)
            part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
            topics = [{"topic_id": UNKNOWN_ID, "partitions": [part]}]
            answer = await cluster.ask(1, OFFSET_COMMIT, 10, group_id="g", topics=topics)
            assert answer.topics[0].topic_id == UNKNOWN_ID
            assert answer.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id
            wanted = [{"topic_id": UNKNOWN_ID, "partition_indexes": [0]}]
            answer = await cluster.ask(
                1, OFFSET_FETCH, 10, groups=[{"group_id": "g", "topics": wanted}]
            )
            assert offsets_of(answer.groups[0].topics) == [
                (0, NO_OFFSET, "", ErrorCode.unknown_topic_id)
            ]

    asyncio.run(main())


def test_only_the_coordinator_serves_a_group() -> None:
    """Every other broker refuses, for each partition or for the group."""

    async def main() -> None:
        async with running(2) as cluster:
            await with_topic(cluster)
            await commit(cluster, "g", 1)
            coordinator = await coordinator_of(cluster, "g")
            (other,) = [node for node in cluster.ids if node != coordinator]
            part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
            answer = await cluster.ask(
                other,
                OFFSET_COMMIT,
                9,
                group_id="g",
                topics=[{"name": "t", "partitions": [part]}],
            )
            assert answer.topics[0].partitions[0].error_code is ErrorCode.not_coordinator
            for version in (1, 7, 9):
                wanted = [{"name": "t", "partition_indexes": [0]}]
                answer = await cluster.ask(
                    other,
                    OFFSET_FETCH,
                    version,
                    group_id="g",
                    topics=wanted,
                    groups=[{"group_id": "g", "topics": wanted}],
                )
                row = answer.groups[0] if version >= 8 else answer
                code = row.topics[0].partitions[0].error_code if version == 1 else row.error_code
                assert code is ErrorCode.not_coordinator

    asyncio.run(main())


def test_another_broker_takes_over_with_all_offsets() -> None:
    """After a clean stop, and after the death of all nodes."""

    async def main() -> None:
        async with running(3) as cluster:
            await with_topic(cluster)
            assert await commit(cluster, "g", 5) is ErrorCode.none
            await cluster.stop(await coordinator_of(cluster, "g"))
            assert await committed(cluster, "g") == {("t", 0): 5}
            assert await commit(cluster, "g", 6) is ErrorCode.none
            await cluster.restart_all()
            assert await committed(cluster, "g") == {("t", 0): 6}

    asyncio.run(main())


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    """A new topic of the same name begins without any."""

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)
            await commit(cluster, "g", 5)
            await cluster.ask(
                1, DELETE_TOPICS, 6, topics=[{"name": "t"}], timeout=timedelta(seconds=5)
            )

            async def gone() -> bool:
                return not await committed(cluster, "g")

            await eventually(gone)
            await with_topic(cluster)
            assert await committed(cluster, "g") == {}

    asyncio.run(main())


def test_single_offsets_are_deleted() -> None:
    """A partition that does not exist is refused."""

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)

            async def delete(*numbers: int) -> Any:
                partitions = [{"partition_index": number} for number in numbers]
                topics = [{"name": "t", "partitions": partitions}]
                return await cluster.ask(1, OFFSET_DELETE, 0, group_id="g", topics=topics)

            await coordinator_of(cluster, "g")

            async def loaded() -> bool:
                return (await delete(0)).error_code is ErrorCode.group_id_not_found

            await eventually(loaded)
            await commit(cluster, "g", 5)
            answer = await delete(0, 7)
            codes = {p.partition_index: p.error_code for p in answer.topics[0].partitions}
            assert codes == {0: ErrorCode.none, 7: ErrorCode.unknown_topic_or_partition}
            assert await committed(cluster, "g") == {}

    asyncio.run(main())
