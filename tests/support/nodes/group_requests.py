"""Requests to the group coordinators of a cluster, which find the coordinator first."""

from typing import Any

from kio.schema.errors import ErrorCode

from nodes.server.apis import FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH
from tests.support.nodes.cluster import Cluster, eventually

WAITS = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""After these errors a client looks for the coordinator again."""


async def coordinator_of(cluster: Cluster, group: str, *, asked: int | None = None) -> int:
    """The coordinator of a group as the node `asked` knows it, once there is one that runs."""
    found: list[int] = []

    async def known() -> bool:
        running = [node for node, instance in cluster.nodes.items() if instance is not None]
        answer = await cluster.ask(asked or running[0], FIND_COORDINATOR, 2, key=group, key_type=0)
        found[:] = [answer.node_id]
        return answer.error_code is ErrorCode.none and answer.node_id in running

    await eventually(known)
    return found[0]


async def commit(cluster: Cluster, group: str, offset: int, **values: Any) -> ErrorCode:
    """Commit an offset of partition 0 of the topic t at the coordinator; return the error.

    It is asked again while no coordinator serves.
    """
    answers: list[ErrorCode] = []

    async def served() -> bool:
        node = await coordinator_of(cluster, group)
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
        answer = await cluster.ask(
            node,
            OFFSET_COMMIT,
            9,
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[{"name": "t", "partitions": [partition]}],
            **values,
        )
        answers[:] = [answer.topics[0].partitions[0].error_code]
        return answers[0] not in WAITS

    await eventually(served)
    return answers[0]


async def committed(cluster: Cluster, group: str) -> dict[tuple[str, int], int]:
    """All offsets that the group has committed."""
    rows: list[Any] = []

    async def served() -> bool:
        node = await coordinator_of(cluster, group)
        wanted = [{"group_id": group, "topics": None}]
        answer = await cluster.ask(node, OFFSET_FETCH, 9, groups=wanted)
        rows[:] = answer.groups
        return rows[0].error_code not in WAITS

    await eventually(served)
    assert rows[0].error_code is ErrorCode.none
    return {
        (topic.name, part.partition_index): part.committed_offset
        for topic in rows[0].topics
        for part in topic.partitions
    }
