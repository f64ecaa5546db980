"""Produce requests that are refused or wait, with Kafka's errors."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import TopicPartition
from nodes.log.batch import Record, encode_batch
from nodes.wire.errors import ChannelError
from tests.nodes.log.test_record_validation import rewritten
from tests.nodes.server.test_broker import batch, produce
from tests.support.nodes.batches import batch as in_transaction
from tests.support.nodes.cluster import Cluster, eventually, running

PRODUCE = 0
T0 = TopicPartition("t", 0)


def whole_cluster(
    count: int, test: Callable[[Cluster], Awaitable[None]], **properties: str
) -> None:
    """Run `test` against `count` nodes with a topic `t` of one partition on all of them."""

    async def run() -> None:
        async with running(count, **properties) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=count)
            await cluster.leader("t", isr=count)
            await test(cluster)

    asyncio.run(run())


async def ask(cluster: Cluster, node: int, records: bytes, version: int = 12, **values: Any) -> Any:
    topic: dict[str, Any] = {"name": "t", "partition_data": [{"index": 0, "records": records}]}
    request = {"acks": -1, "timeout": timedelta(seconds=3), "topic_data": [topic], **values}
    return await cluster.ask(node, PRODUCE, version, **request)


def test_not_leader_error_of_produce_names_the_leader() -> None:
    """The leader, its epoch and its address (KIP-951)."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        other = next(node for node in cluster.ids if node != leader)
        answer = await ask(cluster, other, batch(b"1"))
        part = answer.responses[0].partition_responses[0]
        assert part.error_code is ErrorCode.not_leader_or_follower
        assert part.current_leader.leader_id == leader
        assert part.current_leader.leader_epoch >= 0
        assert [(e.node_id, e.port) for e in answer.node_endpoints] == [
            (leader, cluster.ports[leader])
        ]
        old = await ask(cluster, other, batch(b"1"), version=9)
        assert old.responses[0].partition_responses[0].error_code is part.error_code

    whole_cluster(2, test)


def test_produce_names_topics_by_id_since_v13() -> None:
    """A known id is appended to, an unknown one gets an error (KIP-516)."""

    async def test(cluster: Cluster) -> None:
        topic_id = (await cluster.metadata(1, "t")).topics[0].topic_id
        known = {
            "topic_id": topic_id,
            "partition_data": [{"index": 0, "records": batch(b"1")}],
        }
        unknown = {**known, "topic_id": type(topic_id)(int=topic_id.int ^ 1)}
        answer = await cluster.ask(
            1,
            PRODUCE,
            13,
            acks=-1,
            timeout=timedelta(seconds=3),
            topic_data=[known, unknown],
        )
        codes = [topic.partition_responses[0].error_code for topic in answer.responses]
        assert codes == [ErrorCode.none, ErrorCode.unknown_topic_id]

    whole_cluster(1, test)


def test_record_for_a_new_topic_is_not_appended_to_a_deleted_one_of_its_name() -> None:
    """The metadata has the new topic already, and the replica of the deleted one is still here: the
    record would be removed with it.
    """

    async def test(cluster: Cluster) -> None:
        new = (await cluster.metadata(1, "t")).topics[0].topic_id
        replica = cluster.nodes[1].broker.replicas.find(T0)
        assert replica is not None
        replica.topic_id = type(new)(int=new.int ^ 1)
        topic = {"topic_id": new, "partition_data": [{"index": 0, "records": batch(b"1")}]}
        values = {"acks": -1, "timeout": timedelta(seconds=3), "topic_data": [topic]}
        answer = await cluster.ask(1, PRODUCE, 13, **values)
        part = answer.responses[0].partition_responses[0]
        assert part.error_code is ErrorCode.unknown_topic_id
        assert replica.log.end_offset == 0

    whole_cluster(1, test)


def flagged(attributes: int) -> bytes:
    """A batch with other attributes; its CRC does not matter, they are judged before."""
    records = bytearray(batch(b"1"))
    records[22] |= attributes
    return bytes(records)


@pytest.mark.parametrize(
    ("records", "version", "error"),
    [
        (b"", 12, ErrorCode.invalid_record),
        (b"\0" * 61, 12, ErrorCode.invalid_record),
        (flagged(0x20), 12, ErrorCode.invalid_record),
        (flagged(0x10), 12, ErrorCode.transactional_id_authorization_failed),
        (flagged(0x04), 6, ErrorCode.unsupported_compression_type),
        (flagged(0x04), 7, ErrorCode.corrupt_message),
        (flagged(0x05), 12, ErrorCode.unsupported_compression_type),
        (flagged(0x07), 12, ErrorCode.unsupported_compression_type),
        (flagged(0x08), 12, ErrorCode.invalid_timestamp),
        (rewritten(batch(b"1"), body=b"garbage"), 12, ErrorCode.invalid_record),
        (rewritten(batch(b"1"), attributes=1, body=b"no gzip"), 12, ErrorCode.invalid_record),
        (batch(b"1") + batch(b"2"), 12, ErrorCode.invalid_record),
        (batch(b"1")[:-1] + b"x", 12, ErrorCode.corrupt_message),
    ],
)
def test_invalid_batches_are_refused_with_a_message(
    records: bytes, version: int, error: ErrorCode
) -> None:
    """Nothing of them is appended."""

    async def test(cluster: Cluster) -> None:
        part = (await ask(cluster, 1, records, version)).responses[0].partition_responses[0]
        assert part.error_code is error
        assert part.base_offset == -1
        if version >= 8:
            assert part.error_message
            assert bool(part.record_errors) is (error is ErrorCode.invalid_record)
        assert (await produce(cluster, 1, batch(b"fine"))).base_offset == 0

    whole_cluster(1, test)


def test_the_records_without_a_key_are_named_if_the_topic_is_compacted() -> None:
    """So the producer can tell them from the others of the batch; librdkafka's tests do."""

    async def test() -> None:
        async with running(1) as cluster:
            configs = [{"name": "cleanup.policy", "value": "compact"}]
            await cluster.create_topic("t", num_partitions=1, replication_factor=1, configs=configs)
            await cluster.leader("t")
            keys = (b"a", None, b"b", None)
            records = [Record(key=key, value=b"v") for key in keys]
            part = await produce(cluster, 1, encode_batch(records, timestamp_ms=0))
            assert part.error_code is ErrorCode.invalid_record
            assert [each.batch_index for each in part.record_errors] == [1, 3]
            assert "2 records have no key" in part.error_message
            part = await produce(cluster, 1, encode_batch(records[::2], timestamp_ms=0))
            assert (part.error_code, part.base_offset) == (ErrorCode.none, 0)

    asyncio.run(test())


def test_invalid_acks_and_unverified_transactions_are_refused() -> None:
    """A transaction whose coordinator cannot be asked is not refused for good: the producer tries
    again. For an error with acks=0 the only response is to close the connection.
    """

    async def test(cluster: Cluster) -> None:
        odd = (await ask(cluster, 1, batch(b"1"), acks=2)).responses[0].partition_responses[0]
        assert odd.error_code is ErrorCode.invalid_required_acks
        sent = in_transaction(1, producer=(7, 0, 0), transactional=True)
        transactional = await ask(cluster, 1, sent, transactional_id="x")
        part = transactional.responses[0].partition_responses[0]
        assert part.error_code is ErrorCode.not_enough_replicas
        with pytest.raises(ChannelError):
            await ask(cluster, 1, b"", acks=0)

    whole_cluster(1, test)


def sequenced(sequence: int, producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch(b"%d" % sequence, producer_id=producer_id, epoch=epoch, sequence=sequence)


def test_duplicate_waits_for_the_commit_like_the_first() -> None:
    """It is acknowledged after the followers have the batch, with the first one's offset."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        node = cluster.nodes[leader]
        assert node is not None
        assert node.broker is not None
        replica = node.broker.replicas.find(T0)
        assert replica is not None
        appended = replica.append(sequenced(0))  # as a first request whose answer was lost
        assert replica.state.high_watermark == 0
        again = asyncio.ensure_future(produce(cluster, leader, sequenced(0)))
        answer = await again
        assert replica.state.high_watermark == 1
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, appended.base_offset)
        assert replica.log.end_offset == 1

    whole_cluster(2, test)


def test_last_five_batches_of_a_producer_are_recognized() -> None:
    """The sixth from the end is out of order, as is a gap; a new epoch begins with 0 (KIP-98)."""

    async def test(cluster: Cluster) -> None:
        for sequence in range(6):
            assert (await produce(cluster, 1, sequenced(sequence))).base_offset == sequence
        for sequence in range(1, 6):
            again = await produce(cluster, 1, sequenced(sequence))
            assert (again.error_code, again.base_offset) == (ErrorCode.none, sequence)
        out_of_order = ErrorCode.out_of_order_sequence_number
        assert (await produce(cluster, 1, sequenced(0))).error_code is out_of_order
        assert (await produce(cluster, 1, sequenced(9))).error_code is out_of_order
        assert (await produce(cluster, 1, sequenced(1, epoch=1))).error_code is out_of_order
        assert (await produce(cluster, 1, sequenced(0, epoch=1))).base_offset == 6
        fenced = await produce(cluster, 1, sequenced(6))
        assert fenced.error_code is ErrorCode.invalid_producer_epoch

    whole_cluster(1, test)


def test_produce_times_out_if_not_committed_in_time() -> None:
    """REQUEST_TIMED_OUT after the request's own timeout; the record may be committed later."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        node = cluster.nodes[leader]
        assert node is not None
        assert node.broker is not None
        replica = node.broker.replicas.find(T0)
        assert replica is not None
        other = next(n for n in cluster.ids if n != leader)
        follower = cluster.nodes[other]
        assert follower is not None
        assert follower.broker is not None
        follower.broker.replicas.set_fetchers(_Nobody())
        follower.broker._fetchers.stop()
        answer = await ask(cluster, leader, batch(b"1"), timeout=timedelta(milliseconds=50))
        part = answer.responses[0].partition_responses[0]
        assert part.error_code is ErrorCode.request_timed_out
        assert not replica._awaiting_commit

        async def shrunk() -> bool:  # the follower that does not fetch leaves the ISR
            return replica.state.high_watermark == 1

        await eventually(shrunk)

    whole_cluster(2, test)


class _Nobody:
    def update_leaders(self, changes: object) -> None:
        pass

    def configs_changed(self) -> None:
        pass


def test_batches_of_older_formats_are_refused() -> None:
    """Magic 0 and 1 are gone (KIP-896)."""

    async def test(cluster: Cluster) -> None:
        old = bytearray(batch(b"1"))
        old[16] = 1
        part = (await ask(cluster, 1, bytes(old))).responses[0].partition_responses[0]
        assert part.error_code is ErrorCode.invalid_record
        assert "magic 1" in part.error_message

    whole_cluster(1, test)


def test_large_produce_is_appended_in_slices_and_in_order() -> None:
    """Other requests are served in between, but not the next one of its connection."""

    async def test(cluster: Cluster) -> None:
        many = encode_batch([Record()] * 30_000, timestamp_ms=1)
        data = [{"name": "t", "partition_data": [{"index": 0, "records": many}] * 4}]
        answering = asyncio.ensure_future(cluster.ask(1, 0, 12, acks=-1, topic_data=data,
                                                      timeout=timedelta(seconds=10)))  # fmt: skip
        await asyncio.sleep(0)  # it is sent
        after = await produce(cluster, 1, batch(b"after"))
        assert after.base_offset == 120_000
        rows = (await answering).responses[0].partition_responses
        assert [row.base_offset for row in rows] == [0, 30_000, 60_000, 90_000]

    whole_cluster(1, test)
