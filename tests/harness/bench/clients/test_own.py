"""Our own client measures a broker, in the same event loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.bench.clients import loops
from harness.bench.clients.own import COMMITTING_MEMBERS, Measurement
from nodes.server.apis import LIST_OFFSETS, PRODUCE
from tests.support.nodes.batches import batch
from tests.support.nodes.cluster import Cluster, running

WINDOW_S = 3.0

Check = Callable[[Measurement, Cluster], Awaitable[None]]


def measured(check: Check, **job: Any) -> None:
    """Run `check` with a measurement of a topic of two partitions."""

    def ready() -> loops.Window:
        now_ns = time.monotonic_ns()
        return loops.Window(now_ns, now_ns + int(WINDOW_S * 1e9))

    async def main() -> None:
        async with running(1) as cluster:
            await cluster.create_topic("t", num_partitions=2, replication_factor=1)
            for partition in range(2):
                await cluster.leader("t", partition)
            base = {
                "topic": "t",
                "number": 0,
                "partitions": 2,
                "members": 3,
                "size": 100,
                "messages_per_send": 5,
                "bootstrap": f"127.0.0.1:{cluster.ports[1]}",
            }
            await check(Measurement({**base, **job}, ready), cluster)

    asyncio.run(main())


@pytest.mark.slow
def test_commits_are_counted_with_their_times() -> None:
    """Of all members."""

    async def check(measurement: Measurement, cluster: Cluster) -> None:
        taken, seconds = await measurement.commits()
        assert len(taken) >= COMMITTING_MEMBERS
        assert min(taken) > 0
        assert seconds == WINDOW_S

    measured(check)


@pytest.mark.slow
def test_a_join_ends_when_every_partition_has_its_member() -> None:
    """Three members share two partitions."""

    async def check(measurement: Measurement, cluster: Cluster) -> None:
        assert await measurement.join() > 0

    measured(check)


@pytest.mark.slow
def test_a_transaction_writes_to_every_partition() -> None:
    """One record and one marker in each."""

    async def check(measurement: Measurement, cluster: Cluster) -> None:
        taken, _ = await measurement.transactions()
        assert taken
        for partition in range(2):
            wanted = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
            topics = [{"name": "t", "partitions": [wanted]}]
            answer = await cluster.ask(1, LIST_OFFSETS, 7, replica_id=-1, topics=topics)
            assert answer.topics[0].partitions[0].offset >= 2 * len(taken) - 1

    measured(check)


@pytest.mark.slow
def test_copies_are_counted_by_a_reader_of_committed_records() -> None:
    """At most what was written, in whole transactions."""

    async def check(measurement: Measurement, cluster: Cluster) -> None:
        rows = [{"index": 0, "records": batch(12)}]
        sent = [{"name": "t", "partition_data": rows}]
        await cluster.ask(1, PRODUCE, 7, acks=-1, timeout=timedelta(seconds=9), topic_data=sent)
        copied = await measurement.copies()
        assert copied.messages > 0
        assert copied.messages % 5 == 0

    measured(check)
