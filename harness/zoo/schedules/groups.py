"""Schedules about groups and their committed offsets: brokers 2, 3 and 4, controller 1."""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.classic_member import ClassicMember
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.consumer_member import ConsumerMember
from harness.workloads.clients.own.coordinator import GROUP, Coordinator, Unavailable
from harness.workloads.clients.own.group_member import GroupOffsets, GroupSettings, Member
from harness.workloads.clients.own.transactions import TransactionalProducer
from harness.zoo.schedules.clients import answered, connected, find_coordinator
from harness.zoo.schedules.load import make_topics
from harness.zoo.schedules.stage import TOPIC, ExpectationFailed, Stage
from nodes.ids import TopicPartition

NAME: Final = "group"
PARTITIONS: Final = 4
NOBODY: Final = ("", -1)
"""The member id and the epoch of a consumer that assigns its partitions itself."""
AS_NOBODY: Final = {"member_id": "", "generation_id": -1, "group_instance_id": None}
FOR_LONG_S: Final = 300.0
DELETE_GROUPS, DELETE_VERSION = 42, 2
JOINS: Final = 100
RETENTION_S: Final = 60.0
"""offsets.retention.minutes is 1 in the schedule that waits for it."""


def _settings(instance_id: str | None = None) -> GroupSettings:
    return GroupSettings(
        group=NAME,
        partitions={TOPIC.topic: PARTITIONS},
        session_s=20.0,
        rebalance_s=5.0,
        instance_id=instance_id,
    )


def _offsets(cluster: Cluster) -> GroupOffsets:
    return GroupOffsets(_settings(), Coordinator(cluster, NAME, GROUP))


async def _commit(
    offsets: GroupOffsets, values: Mapping[TopicPartition, int], who: tuple[str, int] = NOBODY
) -> ErrorCode:
    """Commit; return the first partition's error."""
    results = await answered(lambda: offsets.commit(values, *who))
    return next(iter(results.values()))


async def _expect_offset(offsets: GroupOffsets, wanted: int) -> None:
    found = await answered(lambda: offsets.committed([TOPIC]))
    if found[TOPIC] != wanted:
        raise ExpectationFailed(f"committed offset: it is {found[TOPIC]}, not {wanted}")


async def _pending(stage: Stage, cluster: Cluster, offset: int) -> TransactionalProducer:
    """A producer whose open transaction has an offset of partition 0 pending."""
    producer = TransactionalProducer(cluster, "tx", FOR_LONG_S, second=True)
    await answered(producer.init)
    group = Coordinator(cluster, NAME, GROUP)
    commit = partial(producer.commit_offsets, group, NAME, {TOPIC: offset}, **AS_NOBODY)
    await answered(commit)
    return producer


async def later_commit(stage: Stage) -> None:
    """An offset is committed after that of a transaction, and before the transaction's end."""
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    async with connected(stage, 1) as cluster:
        offsets = _offsets(cluster)
        producer = await _pending(stage, cluster, 5)
        await _commit(offsets, {TOPIC: 9})
        await answered(partial(producer.end, commit=True))
        await _expect_offset(offsets, 9)


async def pending_for_long(stage: Stage) -> None:
    """The offsets of a group are old when the transaction that commits the next ones ends."""
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    async with connected(stage, 1) as cluster:
        offsets = _offsets(cluster)
        await _commit(offsets, {TOPIC: 5})
        producer = await _pending(stage, cluster, 9)
        await asyncio.sleep(RETENTION_S + 5)
        await answered(partial(producer.end, commit=True))
        await _expect_offset(offsets, 9)


async def unstable_offset(stage: Stage) -> None:
    """A consumer that waits for stable offsets asks while a transaction commits one."""
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    async with connected(stage, 1) as cluster:
        offsets = _offsets(cluster)
        await _commit(offsets, {TOPIC: 5})
        producer = await _pending(stage, cluster, 9)
        try:
            found = await offsets.committed([TOPIC])
        except Unavailable:
            await answered(partial(producer.end, commit=True))
            await _expect_offset(offsets, 9)
            return
        raise ExpectationFailed(
            f"stable offset: {found[TOPIC]}, though a transaction may change it"
        )


async def deleted_group(stage: Stage) -> None:
    """A group is deleted, and another one of its name begins."""
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    async with connected(stage, 1) as cluster:
        offsets = _offsets(cluster)
        await _commit(offsets, {TOPIC: 5})
        node = await find_coordinator(stage, GROUP)
        answer = await stage.client.ask(node, DELETE_GROUPS, DELETE_VERSION, groups_names=[NAME])
        code = answer.results[0].error_code
        if code is not ErrorCode.none:
            raise ExpectationFailed(f"the group cannot be deleted: {code.name}")
        await _expect_offset(offsets, -1)


async def _join(member: Member) -> None:
    """Become a member of the present generation."""
    for _ in range(JOINS):
        if await answered(member.join) is ErrorCode.none:
            return
    raise ExpectationFailed(f"a member is not in the group after {JOINS} joins")


async def _join_again(member: Member) -> None:
    """Take part in the rebalance that another member's join begins."""
    for _ in range(JOINS):
        if await answered(member.heartbeat) is not ErrorCode.none:
            break
        await asyncio.sleep(0.05)
    await _join(member)


async def old_generation(stage: Stage) -> None:
    """A commit of an earlier generation arrives after the partition has another owner."""
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    async with connected(stage, 1) as one, connected(stage, 2) as other:
        first, second = ClassicMember(one, _settings()), ClassicMember(other, _settings())
        await _join(first)
        earlier = first.generation
        async with asyncio.TaskGroup() as group:
            group.create_task(_join(second))
            group.create_task(_join_again(first))
        owner = second if TOPIC in second.owned else first
        offsets = _offsets(one)
        await _commit(offsets, {TOPIC: 9}, (owner.member_id, owner.generation))
        code = await _commit(offsets, {TOPIC: 5}, (first.member_id, earlier))
        if code is ErrorCode.none:
            raise ExpectationFailed(
                f"old generation: a commit of generation {earlier} is accepted in "
                f"{first.generation}"
            )
        await _expect_offset(offsets, 9)


async def handover(stage: Stage) -> None:
    """A second member joins, and the first one has not given up its partitions yet."""
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    async with connected(stage, 1) as one, connected(stage, 2) as other:
        assert one.topic_id is not None
        topics = {one.topic_id: TOPIC.topic}
        first = ConsumerMember(one, _settings(), topics)
        second = ConsumerMember(other, _settings(), topics)
        await _heartbeats(first, 5)
        if len(first.owned) != PARTITIONS:
            raise ExpectationFailed(f"a single member has {_numbers(first.owned)}")
        await _heartbeats(second, 5)
        if both := first.owned & second.owned:
            raise ExpectationFailed(f"two owners: both members have {_numbers(both)}")
        for _ in range(5):
            await _heartbeats(first, 1)
            await _heartbeats(second, 1)
        if len(first.owned | second.owned) != PARTITIONS or first.owned & second.owned:
            raise ExpectationFailed(
                f"one owner each: {_numbers(first.owned)} and {_numbers(second.owned)}"
            )


def _numbers(owned: Iterable[TopicPartition]) -> list[int]:
    return sorted(each.partition for each in owned)


async def _heartbeats(member: ConsumerMember, count: int) -> None:
    for _ in range(count):
        await answered(member.heartbeat)
        await asyncio.sleep(0.1)


async def restarted_static_member(stage: Stage) -> None:
    """A static member restarts, and then its coordinator dies."""
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    async with connected(stage, 1) as cluster:
        await _join(ClassicMember(cluster, _settings("static")))
        restarted = ClassicMember(cluster, _settings("static"))
        await _join(restarted)
        dies = await find_coordinator(stage, GROUP)
        stage.cluster.kill(dies)
        await asyncio.sleep(3)
        code = await answered(restarted.heartbeat)
        if code is not ErrorCode.none:
            raise ExpectationFailed(f"static member: the one that restarted is told {code.name}")
