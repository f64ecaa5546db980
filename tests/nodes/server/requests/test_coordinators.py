"""Groups and transactions are refused in the same way in every version."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import NO_OFFSET
from nodes.server.apis import (
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from tests.support.nodes.cluster import Cluster, running

GROUP = "g"
PARTITIONS = ({"name": "t", "partition_indexes": (0, 7)},)


async def fetched(cluster: Cluster, version: int, *, everything: bool) -> object:
    """The topics that an OffsetFetch of this version is answered with."""
    topics = None if everything else PARTITIONS
    group = {"group_id": GROUP, "topics": topics, "member_id": None}
    answer = await cluster.ask(
        1, OFFSET_FETCH, version, topics=topics, group_id=GROUP, groups=[group]
    )
    rows = answer.groups[0] if version >= 8 else answer
    assert getattr(rows, "error_code", ErrorCode.none) is ErrorCode.none
    return [
        (row.name, [(p.partition_index, p.committed_offset, p.error_code) for p in row.partitions])
        for row in rows.topics
    ]


def test_group_has_a_coordinator_without_committed_offsets() -> None:
    """Every broker calls itself the coordinator, and no partition has a committed offset."""

    async def main() -> None:
        async with running(1) as cluster:
            found = await cluster.ask(1, FIND_COORDINATOR, 0, key=GROUP)
            assert found.error_code is ErrorCode.none
            assert (found.node_id, found.host, found.port) == (1, "127.0.0.1", cluster.ports[1])
            nothing = [("t", [(n, NO_OFFSET, ErrorCode.none) for n in (0, 7)])]
            for version in range(1, 10):
                assert await fetched(cluster, version, everything=False) == nothing
            for version in range(2, 10):
                assert await fetched(cluster, version, everything=True) == []

    asyncio.run(main())


@pytest.mark.parametrize("version", range(2, 10))
def test_offset_commit_is_refused(version: int) -> None:
    """For every partition of the request."""

    async def main() -> None:
        async with running(1) as cluster:
            parts = [{"partition_index": n, "committed_offset": 5} for n in (0, 7)]
            answer = await cluster.ask(
                1,
                OFFSET_COMMIT,
                version,
                group_id=GROUP,
                topics=[{"name": "t", "partitions": parts}],
            )
            (topic,) = answer.topics
            codes = [(part.partition_index, part.error_code) for part in topic.partitions]
            assert codes == [(n, ErrorCode.unsupported_version) for n in (0, 7)]

    asyncio.run(main())


def test_joining_groups_and_transactions_are_refused() -> None:
    """In every version; a group to be deleted does not exist."""

    async def main() -> None:
        async with running(1) as cluster:
            refused = ErrorCode.unsupported_version
            for version in range(10):
                joined = await cluster.ask(1, JOIN_GROUP, version, group_id=GROUP)
                assert joined.error_code is refused
            for version in range(2):
                beat = await cluster.ask(1, CONSUMER_GROUP_HEARTBEAT, version, group_id=GROUP)
                assert beat.error_code is refused
                assert "assign partitions" in beat.error_message
            for version in range(3):
                deleted = await cluster.ask(1, DELETE_GROUPS, version, groups_names=(GROUP,))
                (row,) = deleted.results
                assert (row.group_id, row.error_code) == (GROUP, ErrorCode.group_id_not_found)
            for version in range(6):
                begun = await cluster.ask(1, INIT_PRODUCER_ID, version, transactional_id="t")
                assert begun.error_code is refused

    asyncio.run(main())
