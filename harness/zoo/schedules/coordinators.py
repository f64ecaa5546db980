"""Schedules about coordinators that die or lose their leadership: brokers 2, 3 and 4, controller 1.

What a coordinator has acknowledged, each later coordinator must know.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.coordinator import (
    GROUP,
    TRANSACTION,
    Coordinator,
    Unavailable,
)
from harness.workloads.clients.own.group_member import GroupOffsets, GroupSettings
from harness.workloads.clients.own.transactions import TransactionalProducer
from harness.zoo.schedules.clients import (
    answered,
    connected,
    expect_committed,
    find_coordinator,
)
from harness.zoo.schedules.load import make_topics
from harness.zoo.schedules.stage import TOPIC, ExpectationFailed, Stage, both_ways, fetch_answers
from nodes.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from nodes.ids import TopicPartition

NAME: Final = "group"
PARTITIONS: Final = 2
TIMEOUT_S: Final = 60.0
NOW_MS: Final = 1
MANY: Final = 40
"""Transactions, of which some records are superseded by others of their key."""


def _offsets(cluster: Cluster) -> GroupOffsets:
    settings = GroupSettings(group=NAME, partitions={}, session_s=10.0, rebalance_s=10.0)
    return GroupOffsets(settings, Coordinator(cluster, NAME, GROUP))


async def _commit(offsets: GroupOffsets, partition: int, offset: int) -> bool:
    """Commit once; return whether that was acknowledged."""
    try:
        results = await offsets.commit({TopicPartition(TOPIC.topic, partition): offset}, "", -1)
    except Unavailable:
        return False
    return all(code is ErrorCode.none for code in results.values())


async def _commit_until_acked(offsets: GroupOffsets, partition: int, offset: int) -> None:
    async def commit() -> None:
        if not await _commit(offsets, partition, offset):
            raise Unavailable("not acknowledged")

    await answered(commit)


def _leads_elsewhere(stage: Stage, topic: str, than: int) -> Callable[[], bool]:
    def look() -> bool:
        found = stage.invariants.images.newest.partition(topic, 0)
        return found is not None and found.leader not in (than, -1)

    return look


async def _expect_offset(offsets: GroupOffsets, at_least: int) -> None:
    found = (await answered(lambda: offsets.committed([TOPIC])))[TOPIC]
    if found < at_least:
        raise ExpectationFailed(f"lost commit: {found} is committed, {at_least} was acknowledged")


async def coordinator_dies(stage: Stage) -> None:
    """A commit reaches a coordinator whose followers have not fetched it when it dies."""
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    found = await find_coordinator(stage, GROUP)
    async with connected(stage, 1) as cluster:
        offsets = _offsets(cluster)
        await _commit_until_acked(offsets, 0, 1)
        stage.cut(*(fetch_answers(of=found, to=n) for n in stage.brokers if n != found))
        acknowledged = 2 if await _commit(offsets, 0, 2) else 1
        stage.lose_power(found)  # a kernel would still send what its process has answered
        stage.heal_cuts()
        await stage.until("another one leads", _leads_elsewhere(stage, OFFSETS_TOPIC, found))
        await _expect_offset(offsets, acknowledged)


async def coordinator_is_deposed(stage: Stage) -> None:
    """A commit waits at a coordinator that is not the leader any more, without knowing it. Later
    commits at its successor take the high watermark beyond the one that waits.
    """
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    found = await find_coordinator(stage, GROUP)
    others = [node for node in stage.brokers if node != found]
    async with connected(stage, 1, request_s=30.0) as slow, connected(stage, 2) as cluster:
        late, offsets = _offsets(slow), _offsets(cluster)
        await _commit_until_acked(late, 0, 1)
        stage.cut(*(fetch_answers(of=found, to=node) for node in others))
        stage.cut(*both_ways(found, 1))
        waiting = asyncio.ensure_future(_commit(late, 0, 2))
        await stage.until("another one leads", _leads_elsewhere(stage, OFFSETS_TOPIC, found))
        for offset in range(5):
            await _commit_until_acked(offsets, 1, offset)
        stage.heal_cuts()
        acknowledged = 2 if await waiting else 1
        await _expect_offset(offsets, acknowledged)


async def dies_in_a_transaction(stage: Stage) -> None:
    """The coordinator of a transaction of two partitions dies before the transaction ends."""
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    found = await find_coordinator(stage, TRANSACTION)
    async with connected(stage, 1) as cluster:
        producer = TransactionalProducer(cluster, "tx", TIMEOUT_S, second=True)
        await answered(producer.init)
        for partition in range(PARTITIONS):
            await answered(partial(producer.write, partition, [b"1"], NOW_MS))
        stage.cluster.kill(found)
        await stage.until("another one leads", _leads_elsewhere(stage, TRANSACTIONS_TOPIC, found))
        await answered(partial(producer.end, commit=True))
        for partition in range(PARTITIONS):
            await expect_committed(cluster, partition, [b"1"])


async def many_transactions(stage: Stage) -> None:
    """So many transactions that compaction can remove records; then the coordinator dies."""
    await make_topics(stage.cluster, {TOPIC.topic: PARTITIONS})
    found = await find_coordinator(stage, TRANSACTION)
    async with connected(stage, 1) as cluster:
        producer = TransactionalProducer(cluster, "tx", TIMEOUT_S, second=True)
        await answered(producer.init)
        for _ in range(MANY):
            await answered(partial(producer.write, 0, [b"1"], NOW_MS))
            await answered(partial(producer.end, commit=True))
        stage.cluster.kill(found)
        await stage.until("another one leads", _leads_elsewhere(stage, TRANSACTIONS_TOPIC, found))
        await answered(partial(producer.write, 0, [b"2"], NOW_MS))
        await answered(partial(producer.end, commit=True))
        await expect_committed(cluster, 0, [b"1"] * MANY + [b"2"])
