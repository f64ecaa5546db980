"""The broker as clients and other brokers meet it: three nodes in one event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import TopicPartition
from nodes.log.batch import Record, decode_records, encode_batch, iter_batches
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from tests.support.nodes.cluster import Cluster, eventually, running

PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT_PRODUCER_ID = 0, 1, 2, 3, 22


def batch(*values: bytes, producer_id: int = -1, epoch: int = -1, sequence: int = -1) -> bytes:
    records = [Record(offset=0, timestamp=0, key=None, value=value) for value in values]
    return encode_batch(
        records,
        base_offset=0,
        leader_epoch=0,
        timestamp_ms=1_700_000_000_000,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


async def produce(
    cluster: Cluster, node: int, records: bytes, *, acks: int = -1, topic: str = "t"
) -> Any:
    response = await cluster.ask(
        node,
        PRODUCE,
        9,
        acks=acks,
        timeout=timedelta(seconds=3),
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
    )
    return response.responses[0].partition_responses[0]


async def consume(cluster: Cluster, node: int, offset: int = 0, **values: Any) -> Any:
    request = {
        "max_wait": timedelta(milliseconds=values.pop("max_wait_ms", 0)),
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
    }
    version = values.pop("version", 12)
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **values}
    response = await cluster.ask(
        node, FETCH, version, **request, topics=[{"topic": "t", "partitions": [part]}]
    )
    return response.responses[0].partitions[0]


def values_of(records: bytes) -> list[bytes | None]:
    return [r.value for at, _ in iter_batches(records) for r in decode_records(records, at)]


def end_to_end(count: int, test: Callable[[Cluster], Awaitable[None]], **topic: Any) -> None:
    """Run `test` against `count` nodes that have a topic `t` of one partition."""

    async def run() -> None:
        async with running(count) as cluster:
            settings = {"num_partitions": 1, "replication_factor": count, **topic}
            await cluster.create_topic("t", **settings)
            await cluster.leader("t", isr=count)
            await test(cluster)

    asyncio.run(run())


@pytest.mark.parametrize("acks", [1, -1])
def test_acknowledged_records_are_read_back(acks: int) -> None:
    """Produce on the leader, read the same records below the high watermark."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        for number in range(5):
            answer = await produce(cluster, leader, batch(b"%d" % number, b"x"), acks=acks)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 2 * number)

        async def committed() -> bool:
            return bool((await consume(cluster, leader)).high_watermark == 10)

        await eventually(committed)
        read = await consume(cluster, leader)
        expected = [value for number in range(5) for value in (b"%d" % number, b"x")]
        assert values_of(read.records) == expected

    end_to_end(3, test)


def test_followers_are_byte_identical() -> None:
    """Every replica's log holds the leader's bytes."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        for number in range(20):
            await produce(cluster, leader, batch(b"%d" % number * 100))
        logs = []
        for node in cluster.nodes.values():
            assert node is not None
            assert node.broker is not None
            replica = node.broker.replicas.find(TopicPartition("t", 0))
            assert replica is not None
            logs.append(replica.log.read(0, 1 << 20, replica.log.end_offset))
        assert len(values_of(logs[0])) == 20
        assert logs[0] == logs[1] == logs[2]

    end_to_end(3, test)


def test_acks_all_needs_min_insync_replicas() -> None:
    """With one of two in-sync replicas stopped and a minimum of two, acks=all is refused."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        other = next(node for node in cluster.ids if node != leader)
        assert (await produce(cluster, leader, batch(b"1"))).error_code is ErrorCode.none
        # not a crash of the quorum: three voters, two stay
        await cluster.stop(other)
        await cluster.leader("t", isr=2)
        assert (await produce(cluster, leader, batch(b"2"))).error_code is ErrorCode.none

    end_to_end(3, test, configs=[{"name": "min.insync.replicas", "value": "2"}])


def test_idempotent_duplicates_are_stored_once() -> None:
    """A batch that is sent again gets its first offset and is not appended."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        answer = await cluster.ask(
            leader, INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=timedelta(0)
        )
        assert answer.error_code is ErrorCode.none
        first = batch(b"a", b"b", producer_id=answer.producer_id, epoch=0, sequence=0)
        gap = batch(b"z", producer_id=answer.producer_id, epoch=0, sequence=5)
        assert (await produce(cluster, leader, first)).base_offset == 0
        assert (await produce(cluster, leader, first)).base_offset == 0
        refused = await produce(cluster, leader, gap)
        assert refused.error_code is ErrorCode.out_of_order_sequence_number
        assert values_of((await consume(cluster, leader)).records) == [b"a", b"b"]

    end_to_end(3, test)


def test_two_brokers_never_give_the_same_producer_id() -> None:
    """Producer ids come in blocks from the controller."""

    async def test(cluster: Cluster) -> None:
        async def taken(node: int) -> int:
            answer = await cluster.ask(
                node, INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=timedelta(0)
            )
            return int(answer.producer_id)

        ids = [await taken(node) for node in cluster.ids for _ in range(3)]
        assert len(set(ids)) == len(ids)

    end_to_end(2, test)


def test_controlled_shutdown_moves_leaderships() -> None:
    """Another in-sync replica leads, and nothing acknowledged is lost."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        assert (await produce(cluster, leader, batch(b"kept"))).error_code is ErrorCode.none
        await cluster.stop(leader)
        heir = await cluster.leader("t")
        assert heir != leader
        read = await consume(cluster, heir)
        assert values_of(read.records) == [b"kept"]
        await cluster.start(leader)
        await cluster.leader("t", isr=3)

    end_to_end(3, test)


def test_only_the_leader_serves_produce_and_old_fetch() -> None:
    """Other replicas refuse appends, and reads in versions without reading from followers."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        other = next(node for node in cluster.ids if node != leader)
        wrong = ErrorCode.not_leader_or_follower
        assert (await produce(cluster, other, batch(b"1"))).error_code is wrong
        assert (await consume(cluster, other, version=10)).error_code is wrong
        assert (await consume(cluster, other, version=11)).error_code is ErrorCode.none

    end_to_end(2, test)


def test_requests_with_another_leader_epoch_are_fenced() -> None:
    """Requests carry the leader epoch that their sender knows (KIP-320)."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        part = (await cluster.metadata(leader, "t")).topics[0].partitions[0]
        ahead = await consume(cluster, leader, current_leader_epoch=part.leader_epoch + 1)
        assert ahead.error_code is ErrorCode.unknown_leader_epoch
        await cluster.stop(leader)
        heir = await cluster.leader("t")
        behind = await consume(cluster, heir, current_leader_epoch=part.leader_epoch)
        assert behind.error_code is ErrorCode.fenced_leader_epoch

    end_to_end(3, test)


def test_commit_completes_a_delayed_fetch() -> None:
    """It ends when the record is committed, not when its time is up."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        reader = asyncio.ensure_future(consume(cluster, leader, max_wait_ms=4000))
        await asyncio.sleep(0.05)
        channel = Channel("127.0.0.1", cluster.ports[leader], client_id="other")
        cluster._channels[leader] = channel  # the reader's connection answers in order
        await produce(cluster, leader, batch(b"news"))
        assert values_of((await reader).records) == [b"news"]

    end_to_end(3, test)


def test_unknown_topics_and_offsets_have_their_errors() -> None:
    """Unknown topics, positions that are not there."""

    async def test(cluster: Cluster) -> None:
        unknown = (await cluster.metadata(1, "nowhere")).topics[0]
        assert unknown.error_code is ErrorCode.unknown_topic_or_partition
        beyond = await consume(cluster, await cluster.leader("t"), offset=99)
        assert beyond.error_code is ErrorCode.offset_out_of_range

    end_to_end(1, test)


def test_clean_shutdown_file_is_written_and_used_once() -> None:
    """It says that no recovery is needed; the next start removes it (KAFKA-10471)."""

    async def test(cluster: Cluster) -> None:
        disk = cluster.disks[1]
        assert not disk.exists(".kafka_cleanshutdown")
        await cluster.stop(1)
        assert disk.exists(".kafka_cleanshutdown")
        await cluster.start(1)
        assert not disk.exists(".kafka_cleanshutdown")

    end_to_end(1, test)


def test_broker_without_metadata_refuses_clients() -> None:
    """Alone after a restart it would call existing topics unknown, so it refuses connections."""

    async def test(cluster: Cluster) -> None:
        for node in cluster.ids:
            await cluster.stop(node)
        alone, *others = cluster.ids
        await cluster.start(alone)
        await asyncio.sleep(0.5)
        with pytest.raises(ChannelError, match="cannot connect"):
            await cluster.metadata(alone, "t")
        for node in others:
            await cluster.start(node)
        await cluster.in_service(3)
        answer = await cluster.metadata(alone, "t")
        assert answer.topics[0].error_code is ErrorCode.none

    end_to_end(3, test)
