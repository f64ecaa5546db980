"""The consumer protocol on whole clusters: every version, and a coordinator that changes."""

import asyncio
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.server.apis import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from nodes.server.requests.groups.classic import GROUP_OPERATIONS
from tests.support.nodes.cluster import Cluster, eventually, running
from tests.support.nodes.group_requests import WAITS, coordinator_of


async def beat(
    cluster: Cluster, node: int, group: str, epoch: int = 0, version: int = 1, **values: Any
) -> Any:
    """Send a heartbeat of member "m" until the coordinator serves; one that joins says all."""
    joining = {
        "rebalance_timeout": timedelta(seconds=60),
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    answers: list[Any] = []

    async def served() -> bool:
        answer = await cluster.ask(
            node,
            CONSUMER_GROUP_HEARTBEAT,
            version,
            group_id=group,
            member_id="m",
            member_epoch=epoch,
            **({**joining, **values} if epoch == 0 else values),
        )
        answers.append(answer)
        return answer.error_code not in WAITS

    await eventually(served)
    return answers[-1]


def test_a_member_lives_in_every_version() -> None:
    """It joins, gets its partitions, is described and listed, and leaves."""

    async def main() -> None:
        async with running(1) as cluster:
            await cluster.create_topic("t", num_partitions=2, replication_factor=1)
            await coordinator_of(cluster, "group-0")
            for version in range(2):
                group = f"group-{version}"
                joined = await beat(cluster, 1, group, version=version)
                assert (joined.error_code, joined.member_epoch) == (ErrorCode.none, 1)
                assert joined.heartbeat_interval == timedelta(seconds=5)
                (row,) = joined.assignment.topic_partitions
                assert row.partitions == (0, 1)
                again = await beat(cluster, 1, group, 1, version)
                assert (again.error_code, again.assignment) == (ErrorCode.none, None)
                described = await cluster.ask(
                    1,
                    CONSUMER_GROUP_DESCRIBE,
                    version,
                    group_ids=[group, "none"],
                    include_authorized_operations=True,
                )
                found, missing = described.groups
                assert (found.group_state, found.assignor_name) == ("Stable", "uniform")
                assert found.authorized_operations == GROUP_OPERATIONS
                (member,) = found.members
                assert (member.member_id, member.client_host) == ("m", "/127.0.0.1")
                (mine,) = member.assignment.topic_partitions
                assert (mine.topic_name, mine.partitions) == ("t", (0, 1))
                assert missing.error_code is ErrorCode.group_id_not_found
                listed = await cluster.ask(1, LIST_GROUPS, 5, types_filter=["consumer"])
                assert (group, "Stable", "Consumer") in [
                    (each.group_id, each.group_state, each.group_type) for each in listed.groups
                ]
                left = await beat(cluster, 1, group, -1, version)
                assert left.member_epoch == -1
                gone = await beat(cluster, 1, group, 1, version)
                assert gone.error_code is ErrorCode.unknown_member_id
            regex = await beat(
                cluster, 1, "regex", subscribed_topic_names=None, subscribed_topic_regex="t.*"
            )
            assert len(regex.assignment.topic_partitions) == 1

    asyncio.run(main())


def test_members_stay_when_the_coordinator_changes() -> None:
    """The new one knows the epochs, and who may commit and fetch in them."""

    async def main() -> None:
        async with running(3) as cluster:
            await cluster.create_topic("t", num_partitions=2, replication_factor=3)
            old = await coordinator_of(cluster, "g")
            joined = await beat(cluster, old, "g")
            await cluster.stop(old)
            await eventually(lambda: _moved(cluster, "g", old))
            new = await coordinator_of(cluster, "g")
            answer = await beat(cluster, new, "g", joined.member_epoch)
            assert answer.error_code is ErrorCode.none
            for epoch, expected in ((1, ErrorCode.none), (2, ErrorCode.stale_member_epoch)):
                partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
                committed = await cluster.ask(
                    new,
                    OFFSET_COMMIT,
                    9,
                    group_id="g",
                    generation_id_or_member_epoch=epoch,
                    member_id="m",
                    topics=[{"name": "t", "partitions": [partition]}],
                )
                assert committed.topics[0].partitions[0].error_code is expected
                wanted = {"group_id": "g", "member_id": "m", "member_epoch": epoch, "topics": None}
                fetched = await cluster.ask(new, OFFSET_FETCH, 9, groups=[wanted])
                assert fetched.groups[0].error_code is expected

    asyncio.run(main())


def test_partitions_of_a_topic_that_is_named_twice_are_all_owned() -> None:
    """Otherwise the broker would believe that the member revoked the first ones."""

    async def main() -> None:
        async with running(1) as cluster:
            await cluster.create_topic("t", num_partitions=2, replication_factor=1)
            await coordinator_of(cluster, "g")
            joined = await beat(cluster, 1, "g")
            (row,) = joined.assignment.topic_partitions
            owned = [{"topic_id": row.topic_id, "partitions": [each]} for each in (0, 1)]
            other = await cluster.ask(
                1,
                CONSUMER_GROUP_HEARTBEAT,
                1,
                group_id="g",
                member_id="other",
                member_epoch=0,
                rebalance_timeout=timedelta(seconds=60),
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
            assert other.assignment.topic_partitions == ()
            for order in (owned, owned[::-1]):
                answer = await beat(cluster, 1, "g", 1, topic_partitions=order)
                assert answer.member_epoch == 1, "it has not revoked what the other shall have"

    asyncio.run(main())


async def _moved(cluster: Cluster, group: str, old: int) -> bool:
    return await coordinator_of(cluster, group) != old


def test_a_cluster_without_the_feature_has_no_consumer_groups() -> None:
    """group.version is 0: clients are told at once, as by Kafka."""

    async def main() -> None:
        async with running(1, group_version="0") as cluster:
            await coordinator_of(cluster, "g")
            answer = await beat(cluster, 1, "g")
            assert answer.error_code is ErrorCode.unsupported_version
            described = await cluster.ask(1, CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"])
            assert described.groups[0].error_code is ErrorCode.unsupported_version

    asyncio.run(main())
