"""flush.messages=1: acknowledged records survive a power loss of all nodes at once."""

import asyncio
import random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import Offset, TopicPartition
from nodes.storage.memory import MemoryDisk
from tests.nodes.server.test_broker import batch, consume, produce, values_of
from tests.support.nodes.cluster import Cluster, eventually, running

FLUSHED = [{"name": "flush.messages", "value": "1"}]
SENDERS, SENDS = 4, 10


async def acknowledged_then_dark(cluster: Cluster, acks: int, rng: random.Random) -> set[bytes]:
    """Produce on several connections at once, and lose power in the middle of it."""
    leader = await cluster.leader("t")
    acknowledged: set[bytes] = set()

    async def send(sender: int) -> None:
        for number in range(SENDS):
            value = b"%d-%d" % (sender, number)
            answer = await produce(cluster, leader, batch(value), acks=acks)
            if answer.error_code is ErrorCode.none:
                acknowledged.add(value)

    senders = [asyncio.ensure_future(send(sender)) for sender in range(SENDERS)]
    await eventually(lambda: enough(acknowledged))
    dark = set(acknowledged)
    await cluster.restart_all(lambda disk: disk.crash(rng))
    await asyncio.gather(*senders, return_exceptions=True)
    return dark


async def enough(acknowledged: set[bytes]) -> bool:
    return len(acknowledged) >= SENDS


async def everything(cluster: Cluster) -> set[bytes | None]:
    """Every record, once a leader serves and has committed all that it has."""
    read: list[Any] = []

    async def committed() -> bool:
        leader = await cluster.leader("t")
        node = cluster.nodes[leader]
        assert node is not None
        assert node.broker is not None
        replica = node.broker.replicas.find(TopicPartition("t", 0))
        answer = await consume(cluster, leader)
        read[:] = [answer]
        return (
            answer.error_code is ErrorCode.none
            and replica is not None
            and answer.high_watermark == replica.log.end_offset
        )

    await eventually(committed)
    return set(values_of(read[0].records))


def after_the_dark(acks: int, count: int, configs: list[dict[str, str]], seed: int) -> Any:
    """What was acknowledged, and what is read when the lights are on again."""

    async def run() -> tuple[set[bytes], set[bytes | None]]:
        async with running(count) as cluster:
            await cluster.create_topic(
                "t", num_partitions=1, replication_factor=count, configs=configs
            )
            await cluster.leader("t", isr=count)
            before = await acknowledged_then_dark(cluster, acks, random.Random(seed))
            return before, await everything(cluster)

    return asyncio.run(run())


@pytest.mark.parametrize("seed", range(3))
def test_records_are_flushed_before_acks_all(seed: int) -> None:
    """No acknowledged record is lost although all three nodes lose power at once."""
    before, after = after_the_dark(-1, 3, FLUSHED, seed)
    assert len(before) >= SENDS
    assert before <= after


def test_acks_1_waits_for_the_leaders_flush() -> None:
    """acks=1 waits for the leader's own flush."""
    before, after = after_the_dark(1, 1, FLUSHED, seed=1)
    assert before <= after


def test_power_loss_loses_records_without_flush_messages() -> None:
    """The page cache is not the disk, and replication alone does not help."""
    lost = [before - after for before, after in (after_the_dark(-1, 1, [], s) for s in range(2))]
    assert any(lost)


def test_many_produces_share_a_flush() -> None:
    """Group commit: as many acknowledgements as produces, with far fewer syncs."""

    async def run() -> None:
        async with running(1) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=1, configs=FLUSHED)
            await cluster.leader("t", isr=1)
            disk = cluster.disks[1]
            syncs = count_syncs(disk, "t-0/")
            node = cluster.nodes[1]
            assert node is not None
            assert node.broker is not None
            replica = node.broker.replicas.find(TopicPartition("t", 0))
            assert replica is not None
            waiting = []
            for number in range(50):
                appended = replica.append(batch(b"%d" % number))
                waiting.append(replica.acknowledge(Offset(appended.last_offset + 1), 1))
            answers = await asyncio.gather(*(w for w in waiting if asyncio.isfuture(w)))
            assert len(answers) == 50
            assert replica.log.flushed_offset == 50
            assert len(syncs) < 10

    asyncio.run(run())


def count_syncs(disk: MemoryDisk, below: str) -> list[Any]:
    """What is synced from now on."""
    syncs: list[Any] = []
    sync = disk.sync

    async def counted(target: Any) -> None:
        syncs.append(target)
        await sync(target)

    disk.sync = counted  # type: ignore[method-assign]
    return syncs
