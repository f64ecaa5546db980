"""A foreign consumer with a rack reads from the follower there (KIP-392)."""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.support.nodes.cluster import Cluster

RECORDS = 200
PATIENCE_S = 20.0


class RackedCluster(Cluster):
    """Every broker in a rack of its own: node 2 in rack-2."""

    def _properties(self, node: int) -> dict[str, str]:
        return {
            **super()._properties(node),
            "broker.rack": f"rack-{node}",
            "replica.selector.class": ("org.apache.kafka.common.replica.RackAwareReplicaSelector"),
        }


@contextlib.asynccontextmanager
async def racked(count: int) -> AsyncIterator[RackedCluster]:
    cluster = RackedCluster(count)
    try:
        for node in cluster.ids:
            await cluster.start(node)
        await cluster.in_service(count)
        yield cluster
    finally:
        await cluster.close()


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("t", b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0


def consume(bootstrap: str, rack: str) -> tuple[list[int], dict[int, int]]:
    """The values read, and how many fetches each broker was asked."""
    fetches: dict[int, int] = {}

    def note(text: str) -> None:
        for broker in json.loads(text)["brokers"].values():
            fetches[broker["nodeid"]] = broker.get("req", {}).get("Fetch", 0)

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": str(uuid.uuid4()),
            "enable.auto.commit": False,  # there is no coordinator: closing would wait for it
            "client.rack": rack,
            "statistics.interval.ms": 100,
            "stats_cb": note,
        }
    )
    consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    values: list[int] = []
    try:
        deadline = time.monotonic() + PATIENCE_S
        while len(values) < RECORDS and time.monotonic() < deadline:
            message: Any = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.append(int(message.value()))
        time.sleep(0.3)
        consumer.poll(0.2)  # the last statistics
    finally:
        consumer.close()
    return values, fetches


@pytest.mark.slow
def test_librdkafka_consumer_reads_from_the_follower_in_its_rack() -> None:
    """Everything, in order, and from the replica that it was sent to."""

    async def run() -> None:
        async with racked(3) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=3)
            leader = await cluster.leader("t", isr=3)
            bootstrap = ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())
            follower = next(node for node in cluster.ids if node != leader)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, produce, bootstrap)
            values, fetches = await loop.run_in_executor(
                None, consume, bootstrap, f"rack-{follower}"
            )
            assert values == list(range(RECORDS))
            assert fetches[follower] > fetches[leader] > 0

    asyncio.run(run())
