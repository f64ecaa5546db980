"""Logs and roles through deletion, re-creation, damage and configuration, on whole nodes."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import TopicPartition
from nodes.replication.partition import Role
from nodes.server.replicas.replica import Replica
from tests.nodes.server.test_broker import batch, consume, produce, values_of
from tests.support.nodes.cluster import Cluster, eventually, running

DELETE_TOPICS, DELETE_RECORDS, INCREMENTAL_ALTER_CONFIGS = 20, 21, 44
TOPIC, SET = 2, 0
T0 = TopicPartition("t", 0)


def whole_cluster(count: int, test: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run `test` against `count` nodes with a topic `t` of one partition on all of them."""

    async def run() -> None:
        async with running(count) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=count)
            await cluster.leader("t", isr=count)
            await test(cluster)

    asyncio.run(run())


async def delete(cluster: Cluster, node: int, topic: str) -> None:
    answer = await cluster.ask(
        node, DELETE_TOPICS, 6, topics=[{"name": topic}], timeout=timedelta(seconds=5)
    )
    assert answer.responses[0].error_code is ErrorCode.none


async def configure(cluster: Cluster, topic: str, name: str, value: str) -> None:
    config = {"name": name, "config_operation": SET, "value": value}
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": [config]}
    answer = await cluster.ask(1, INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    assert answer.responses[0].error_code is ErrorCode.none


def replica(cluster: Cluster, node: int) -> Replica | None:
    instance = cluster.nodes[node]
    assert instance is not None
    assert instance.broker is not None
    return instance.broker.replicas.find(T0)


async def gone_everywhere(cluster: Cluster) -> None:
    async def gone() -> bool:
        return all(
            replica(cluster, node) is None
            and not any(name.startswith("t-0") for name in cluster.disks[node].listdir(""))
            for node in cluster.ids
            if cluster.nodes[node] is not None
        )

    await eventually(gone)


async def read(cluster: Cluster, leader: int) -> list[bytes | None]:
    """Everything, once a leader serves and has committed all that it has."""
    answers: list[Any] = []

    async def committed() -> bool:
        answer = await consume(cluster, leader)
        local = replica(cluster, leader)
        answers[:] = [answer]
        return (
            answer.error_code is ErrorCode.none
            and local is not None
            and answer.high_watermark == local.log.end_offset
        )

    await eventually(committed)
    return values_of(answers[0].records)


def test_deleted_topic_leaves_nothing_behind() -> None:
    """Every node removes its directories, and requests for its name fail."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        await produce(cluster, leader, batch(b"1"))
        await delete(cluster, leader, "t")
        await gone_everywhere(cluster)
        unknown = ErrorCode.unknown_topic_or_partition
        assert (await produce(cluster, leader, batch(b"2"))).error_code is unknown

    whole_cluster(2, test)


class Roles:
    """Hears of the roles of a topic's replicas, as the coordinators do."""

    def __init__(self) -> None:
        self.heard: list[Role] = []

    def role_changed(self, replica: Replica) -> None:
        """See `RoleListener`."""
        self.heard.append(replica.state.role)


def test_removed_replica_is_reported_as_offline() -> None:
    """Otherwise a coordinator would keep all that it knows for a partition that is gone."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        instance = cluster.nodes[leader]
        assert instance is not None
        assert instance.broker is not None
        roles = Roles()
        instance.broker.replicas.set_role_listener("t", roles)
        await delete(cluster, leader, "t")
        await gone_everywhere(cluster)
        assert roles.heard == [Role.OFFLINE]

    whole_cluster(2, test)


def test_recreated_topic_starts_empty() -> None:
    """Also on a node that was down meanwhile, whose log is of the older topic (KIP-516)."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        for value in (b"old-1", b"old-2", b"old-3"):
            await produce(cluster, leader, batch(value))
        away = next(node for node in cluster.ids if node not in (leader, 1))
        await cluster.stop(away)
        assert cluster.disks[away].exists("t-0/partition.metadata")
        await delete(cluster, 1, "t")
        await gone_everywhere(cluster)
        await cluster.create_topic("t", num_partitions=1, replication_factor=2)
        leader = await cluster.leader("t", isr=2)
        assert (await produce(cluster, leader, batch(b"new"))).base_offset == 0
        await cluster.start(away)
        await cluster.in_service(3)

        async def forgotten() -> bool:
            return not cluster.disks[away].exists("t-0")

        await eventually(forgotten)
        assert await read(cluster, leader) == [b"new"]

    whole_cluster(3, test)


async def delete_records(cluster: Cluster, leader: int, offset: int) -> None:
    partitions = [{"partition_index": 0, "offset": offset}]
    topics = [{"name": "t", "partitions": partitions}]
    answer = await cluster.ask(
        leader, DELETE_RECORDS, 2, topics=topics, timeout=timedelta(seconds=5)
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


@pytest.mark.parametrize("knows_topic", [True, False])
def test_recreated_topic_does_not_begin_at_the_start_of_an_empty_log(*, knows_topic: bool) -> None:
    """Of the older topic: its log had no records any more, and a new replica began at its start.
    It would lack the first records of the new topic, and delete those of the others when it leads.
    """

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        for value in (b"old-1", b"old-2", b"old-3"):
            await produce(cluster, leader, batch(value))
        away = next(node for node in cluster.ids if node not in (leader, 1))
        await cluster.stop(away)
        disk = cluster.disks[away]
        for name in disk.listdir("t-0"):
            disk.unlink(f"t-0/{name}")
        disk.remove_dir("t-0")
        await delete_records(cluster, leader, 3)
        await cluster.start(away)
        await cluster.leader("t", isr=3)
        assert disk.exists("t-0/00000000000000000003.log")
        assert disk.exists("t-0/partition.metadata")
        await cluster.stop(away)
        if not knows_topic:
            disk.unlink("t-0/partition.metadata")
        await delete(cluster, 1, "t")
        await gone_everywhere(cluster)
        await cluster.create_topic("t", num_partitions=1, replication_factor=3)
        leader = await cluster.leader("t", isr=2)
        new = [b"new-%d" % number for number in range(5)]
        for value in new:
            await produce(cluster, leader, batch(value))
        await cluster.start(away)
        await cluster.leader("t", isr=3)
        local = replica(cluster, away)
        assert local is not None
        assert (local.log.start_offset, local.log.end_offset) == (0, 5)
        assert await read(cluster, leader) == new

    whole_cluster(3, test)


def test_no_log_is_removed_before_the_image_is_known() -> None:
    """A node that cannot reach the quorum keeps all its logs."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        await produce(cluster, leader, batch(b"kept"))
        for node in cluster.ids:
            await cluster.stop(node)
        await cluster.start(1)
        await asyncio.sleep(0.3)
        assert cluster.disks[1].exists("t-0/partition.metadata")

    whole_cluster(2, test)


def test_changed_topic_configuration_applies_at_once() -> None:
    """max.message.bytes and min.insync.replicas of a topic, without a restart."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        await configure(cluster, "t", "max.message.bytes", "100")

        async def refused() -> bool:
            answer = await produce(cluster, leader, batch(b"x" * 200))
            return answer.error_code is ErrorCode.message_too_large

        await eventually(refused)
        local = replica(cluster, leader)
        assert local is not None
        for asked, effective in (("2", 2), ("1", 1), ("9", 2)):
            await configure(cluster, "t", "min.insync.replicas", asked)

            async def followed(effective: int = effective) -> bool:
                return local.state.min_isr == effective  # never more than there are replicas

            await eventually(followed)
        assert (await produce(cluster, leader, batch(b"y"))).error_code is ErrorCode.none

    whole_cluster(2, test)


def damage(cluster: Cluster, node: int) -> None:
    """Flip a bit in the first of several batches of a node's log."""
    cluster.disks[node].corrupt("t-0/00000000000000000000.log", 70)


def test_damaged_log_is_set_aside_and_fetched_again() -> None:
    """The damaged bytes are kept, and the new log is complete before it counts as in sync."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        for number in range(4):
            await produce(cluster, leader, batch(b"%d" % number))
        victim = next(node for node in cluster.ids if node != leader)
        await cluster.stop(victim)
        cluster.disks[victim].unlink(".kafka_cleanshutdown")
        damage(cluster, victim)
        await cluster.start(victim)
        await cluster.leader("t", isr=3)
        names = cluster.disks[victim].listdir("")
        assert [name for name in names if name.endswith("-corrupt")] == ["t-0.1-corrupt"]
        assert cluster.disks[victim].exists("t-0.1-corrupt/00000000000000000000.log")
        local = replica(cluster, victim)
        assert local is not None
        assert local.log.end_offset == 4

        async def healed() -> bool:
            return not cluster.disks[victim].exists("t-0.1-corrupt/refetch")

        await eventually(healed)

    whole_cluster(3, test)


def test_only_replica_does_not_lead_with_an_empty_log_after_damage() -> None:
    """Acknowledged records are not lost silently: no leader before the operator allows it."""

    async def test(cluster: Cluster) -> None:
        for number in range(4):
            await produce(cluster, 1, batch(b"%d" % number))
        await cluster.stop(1)
        cluster.disks[1].unlink(".kafka_cleanshutdown")
        damage(cluster, 1)
        for _ in range(2):  # a restart does not make it forget
            await cluster.start(1)
            await cluster.in_service(1)
            await asyncio.sleep(0.2)
            local = replica(cluster, 1)
            assert local is None or local.state.role is not Role.LEADER
            assert (await produce(cluster, 1, batch(b"new"))).error_code is not ErrorCode.none
            await cluster.stop(1)
        assert cluster.disks[1].exists("t-0.1-corrupt/refetch")

    whole_cluster(1, test)
