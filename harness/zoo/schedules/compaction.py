"""Schedules about compacted topics: brokers 2, 3 and 4, controller 1. The invariants judge."""

import asyncio
from functools import partial
from typing import Final

from harness.admin import topics
from harness.admin.client import AdminClient
from harness.simulation import keyed_work
from harness.simulation.invariants.keyed_values import KeyedValues
from harness.simulation.keyed_work import KeyedWriter
from harness.simulation.world.world import NS
from harness.workloads.clients.own.transactions import TransactionalProducer
from harness.zoo.schedules.clients import ONE_COORDINATOR, answered, connected
from harness.zoo.schedules.load import in_service
from harness.zoo.schedules.stage import Stage

OFTEN: Final = {
    **ONE_COORDINATOR,
    "broker.session.timeout.ms": 1000,
    "log.cleaner.backoff.ms": 300,
    "log.cleaner.delete.retention.ms": 1000,
}
FORGETFUL: Final = {
    **OFTEN,
    "log.cleaner.delete.retention.ms": 300,
    "log.flush.offset.checkpoint.interval.ms": 10_000,
    "log.retention.check.interval.ms": 300,
    "producer.id.expiration.ms": 1000,
}
"""Brokers forget a producer soon after its last batch. Their recovery points are on the disk every
10 seconds."""
WRITERS: Final = 3
WORKS_S: Final = 5.0
MARKER_KEYS: Final = (b"\0\0\0\0", b"\0\0\0\1")
"""Keys of a user that are the keys of an abort and a commit marker."""


async def _make_topic(stage: Stage) -> None:
    made = keyed_work.topic()
    async with AdminClient(list(stage.cluster.brokers.values())) as admin:
        await in_service(admin, len(stage.brokers))
        await topics.create(
            admin,
            made.name,
            partitions=made.partitions,
            replication_factor=len(stage.brokers),
            configs={**made.configs, "min.insync.replicas": "2"},
        )


async def keys(stage: Stage) -> None:
    """Keys are written and deleted in transactions; a broker loses its power meanwhile."""
    await _make_topic(stage)
    values, stop = KeyedValues(deletions_stay=False), asyncio.Event()

    async def write(number: int) -> None:
        async with connected(stage, number, keyed_work.TOPIC) as cluster:
            writer = KeyedWriter(
                cluster,
                f"keys-{number}",
                values,
                rng=stage.world.stream("keys", number),
                wall_clock_ms=stage.cluster.clients.clock.ms,
                stop=stop,
            )
            await writer.run()

    async with asyncio.TaskGroup() as group:
        for number in range(WRITERS):
            group.create_task(write(number))
        await asyncio.sleep(WORKS_S)
        stage.lose_power(2)
        await asyncio.sleep(1)
        stage.cluster.start(2)
        await asyncio.sleep(WORKS_S)
        stop.set()
    async with connected(stage, WRITERS, keyed_work.TOPIC) as cluster:
        await keyed_work.check_keys(cluster, values, stage.cluster.clients.clock.ms)


async def keys_of_markers(stage: Stage) -> None:
    """A user's keys are those of markers, and transactions end after the user's last records."""
    await _make_topic(stage)
    now_ms = stage.cluster.clients.clock.ms
    async with connected(stage, 1, keyed_work.TOPIC) as cluster:
        producer = TransactionalProducer(cluster, "tx", 60.0, second=True)
        await answered(producer.init)
        for key in MARKER_KEYS:
            await answered(partial(producer.write, 0, [b"last"], now_ms(), key))
        await answered(partial(producer.end, commit=True))
        for number in range(60):  # enough to seal segments, and to clean them
            key = b"other-%d" % (number % 3)
            await answered(partial(producer.write, 0, [b"." * 100], now_ms(), key))
            await answered(partial(producer.end, commit=number % 2 == 0))
        await asyncio.sleep(5)


async def forgotten_producer(stage: Stage) -> None:
    """A segment begins in a producer's transaction, and the recovery point is there. Then the key
    is written again, the marker is cleaned away, and a broker is killed.
    """
    await _make_topic(stage)
    now_ms = stage.cluster.clients.clock.ms
    async with connected(stage, 1, keyed_work.TOPIC) as cluster:
        forgotten = TransactionalProducer(cluster, "forgotten", 60.0, second=True)
        other = TransactionalProducer(cluster, "other", 60.0, second=True)
        for producer in (forgotten, other):
            await answered(producer.init)

        async def write(key: bytes, *, size: int) -> None:
            await answered(partial(other.write, 0, [b"." * size], now_ms(), key))
            await answered(partial(other.end, commit=True))

        await write(b"in the first segment", size=2000)
        await answered(partial(forgotten.write, 0, [b"."], now_ms(), b"again"))
        await write(b"in the second segment", size=2000)
        await answered(partial(forgotten.end, commit=True))
        recovery_points_ms = FORGETFUL["log.flush.offset.checkpoint.interval.ms"]
        await asyncio.sleep(recovery_points_ms / 1000 + 1 - stage.world.now_ns / NS)
        for number in range(60):  # enough to seal segments, and to clean them
            await write(b"again" if not number else b"other", size=200)
            await asyncio.sleep(0.1)
        stage.cluster.kill(2)
        await asyncio.sleep(1)
        stage.cluster.start(2)
        await asyncio.sleep(WORKS_S)
