"""LogAppendTime: the leader's wall clock in the records and in the answer."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from nodes.log.batch import decode_records
from tests.nodes.server.test_broker import batch, consume, produce
from tests.support.nodes.cluster import eventually, running

CLUSTERS_WALL_MS = 1_700_000_000_000
"""What every node of a test cluster takes for the time."""


def epoch_ms(value: object) -> int | None:
    return None if value is None else round(value.timestamp() * 1000)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_record_has_the_time_of_the_client_or_of_the_leader(kind: str) -> None:
    """With LogAppendTime it is the leader's, which the response reports."""

    async def run() -> None:
        async with running(2) as cluster:
            configs = [{"name": "message.timestamp.type", "value": kind}]
            await cluster.create_topic("t", num_partitions=1, replication_factor=2, configs=configs)
            leader = await cluster.leader("t", isr=2)
            answer = await produce(cluster, leader, batch(b"1", b"2"))
            assert answer.error_code is ErrorCode.none
            stamps: list[int] = []

            async def fetched() -> bool:
                part = await consume(cluster, leader)
                stamps[:] = [r.timestamp for r in decode_records(part.records or b"")]
                return bool(stamps)

            await eventually(fetched)
            told = epoch_ms(answer.log_append_time)
            if kind == "CreateTime":
                assert (told, stamps) == (None, [0, 0])  # what the client wrote
            else:
                assert told == CLUSTERS_WALL_MS
                assert stamps == [told, told]

    asyncio.run(run())


def test_duplicate_keeps_its_first_append_time_and_a_corrupt_batch_is_refused() -> None:
    """A retry changes nothing; a wrong CRC is found before the batch gets a new one."""

    async def run() -> None:
        async with running(1) as cluster:
            configs = [{"name": "message.timestamp.type", "value": "LogAppendTime"}]
            await cluster.create_topic("t", num_partitions=1, replication_factor=1, configs=configs)
            leader = await cluster.leader("t", isr=1)
            sent = batch(b"1", producer_id=7, epoch=0, sequence=0)
            first = await produce(cluster, leader, sent)
            node = cluster.nodes[leader]
            assert node is not None
            assert node.broker is not None
            node.broker._handlers.produce._wall_clock_ms = lambda: CLUSTERS_WALL_MS + 3_600_000
            again = await produce(cluster, leader, sent)
            assert (first.base_offset, again.base_offset) == (0, 0)
            assert again.log_append_time == first.log_append_time is not None
            part = await consume(cluster, leader)
            (record,) = decode_records(part.records)
            assert record.timestamp == epoch_ms(first.log_append_time)
            damaged = await produce(cluster, leader, batch(b"1")[:-1] + b"x")
            assert damaged.error_code is ErrorCode.corrupt_message

    asyncio.run(run())
