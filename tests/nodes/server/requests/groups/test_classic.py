"""The classic protocol on whole clusters: every version, and a coordinator that changes."""

import asyncio
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.server.apis import (
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
)
from nodes.server.requests.groups.classic import GROUP_OPERATIONS
from tests.support.nodes.cluster import Cluster, eventually, running
from tests.support.nodes.group_requests import WAITS, commit, coordinator_of

NO_OPERATIONS = -(2**31)
"""The operations of a group that were not asked for."""


async def join(cluster: Cluster, node: int, group: str, version: int = 9, member: str = "") -> Any:
    """Join as the only member, with the id that the coordinator gives."""
    answers: list[Any] = []

    async def joined() -> bool:
        answer = await cluster.ask(
            node,
            JOIN_GROUP,
            version,
            group_id=group,
            member_id=member if not answers else answers[-1].member_id,
            session_timeout=timedelta(seconds=10),
            rebalance_timeout=timedelta(seconds=10),
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"subscription"}],
        )
        answers.append(answer)
        again = {*WAITS, ErrorCode.member_id_required}
        return answer.error_code not in again

    await eventually(joined)
    assert answers[-1].error_code is ErrorCode.none
    return answers[-1]


async def sync(cluster: Cluster, node: int, group: str, joined: Any, version: int = 5) -> Any:
    """Give the only member its assignment."""
    return await cluster.ask(
        node,
        SYNC_GROUP,
        version,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": b"mine"}],
    )


async def beat(cluster: Cluster, node: int, group: str, joined: Any, version: int = 4) -> ErrorCode:
    answer = await cluster.ask(
        node,
        HEARTBEAT,
        version,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
    )
    return ErrorCode(answer.error_code)


def test_a_member_lives_in_every_version() -> None:
    """It joins, gets its assignment, stays, and leaves."""

    async def main() -> None:
        async with running(1) as cluster:
            await coordinator_of(cluster, "group-0")
            for version in range(10):
                group = f"group-{version}"
                joined = await join(cluster, 1, group, version)
                assert (joined.generation_id, joined.protocol_name) == (1, "range")
                assert joined.leader == joined.member_id
                assert [each.metadata for each in joined.members] == [b"subscription"]
                synced = await sync(cluster, 1, group, joined, min(version, 5))
                assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"mine")
                assert await beat(cluster, 1, group, joined, min(version, 4)) is ErrorCode.none
                described = await cluster.ask(
                    1,
                    DESCRIBE_GROUPS,
                    min(version, 6),
                    groups=[group, "none"],
                    include_authorized_operations=version % 2 == 0,
                )
                row, missing = described.groups
                assert (row.group_state, row.protocol_data) == ("Stable", "range")
                assert [each.client_host for each in row.members] == ["/127.0.0.1"]
                asked = version >= 3 and version % 2 == 0
                operations = getattr(row, "authorized_operations", NO_OPERATIONS)
                assert operations == (GROUP_OPERATIONS if asked else NO_OPERATIONS)
                not_found = ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none
                assert (missing.group_state, missing.error_code) == ("Dead", not_found)
                left = await cluster.ask(
                    1,
                    LEAVE_GROUP,
                    min(version, 5),
                    group_id=group,
                    member_id=joined.member_id,
                    members=[{"member_id": joined.member_id, "group_instance_id": None}],
                )
                assert left.error_code is ErrorCode.none
                gone = await beat(cluster, 1, group, joined)
                assert gone is ErrorCode.unknown_member_id

    asyncio.run(main())


def test_members_stay_when_the_coordinator_changes() -> None:
    """The new one knows the generation, and who may commit in it."""

    async def main() -> None:
        async with running(3) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=3)
            old = await coordinator_of(cluster, "g")
            joined = await join(cluster, old, "g")
            assert (await sync(cluster, old, "g", joined)).error_code is ErrorCode.none
            await cluster.stop(old)
            refused = await commit(cluster, "g", 1)
            assert refused is ErrorCode.unknown_member_id
            new = await coordinator_of(cluster, "g")
            assert new != old
            assert await beat(cluster, new, "g", joined) is ErrorCode.none
            for generation, expected in (
                (joined.generation_id, ErrorCode.none),
                (joined.generation_id + 1, ErrorCode.illegal_generation),
            ):
                partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
                answer = await cluster.ask(
                    new,
                    OFFSET_COMMIT,
                    9,
                    group_id="g",
                    generation_id_or_member_epoch=generation,
                    member_id=joined.member_id,
                    topics=[{"name": "t", "partitions": [partition]}],
                )
                assert answer.topics[0].partitions[0].error_code is expected

    asyncio.run(main())


def test_a_broker_that_is_not_the_coordinator_refuses_members() -> None:
    """With the error after which clients look for the coordinator again."""

    async def main() -> None:
        async with running(2) as cluster:
            coordinator = await coordinator_of(cluster, "g")
            joined = await join(cluster, coordinator, "g")
            (other,) = [node for node in cluster.ids if node != coordinator]
            assert await beat(cluster, other, "g", joined) is ErrorCode.not_coordinator
            assert (await sync(cluster, other, "g", joined)).error_code is ErrorCode.not_coordinator
            for version in (2, 5):
                left = await cluster.ask(
                    other,
                    LEAVE_GROUP,
                    version,
                    group_id="g",
                    members=[{"member_id": joined.member_id, "group_instance_id": None}],
                )
                assert left.error_code is ErrorCode.not_coordinator

    asyncio.run(main())
