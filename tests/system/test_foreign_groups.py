"""Clients share the partitions of a topic as members of a group, commit offsets, and read on from
there.

Three nodes run in a thread of this process, on loopback ports and disks in memory.
"""

import asyncio
import itertools
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import AdminClient

from tests.support.clients.kafka_python import (
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from tests.support.clusters.loopback_cluster import serving
from tests.support.nodes.cluster import UNHURRIED, Cluster
from tests.support.require import require

pytestmark = pytest.mark.slow

TOPIC = "plain"
SHARED = "shared"
_groups = itertools.count()
PATIENCE_S = 60.0


def new_group() -> str:
    """A group that has committed nothing."""
    return f"group-{next(_groups)}"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Addresses of a cluster with one topic, in which there is one record."""
    with serving(Cluster(3, **UNHURRIED), **{TOPIC: 1, SHARED: 4}) as addresses:
        producer = confluent_kafka.Producer({"bootstrap.servers": addresses})
        producer.produce(TOPIC, b"hello")
        assert producer.flush(PATIENCE_S) == 0
        yield addresses


# -- librdkafka --------------------------------------------------------------------------------


def rd_consumer(
    bootstrap: str, protocol: str = "classic", group: str = "", *, commits: bool = True
) -> confluent_kafka.Consumer:
    """One of librdkafka's, in a group, that commits by itself."""
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or new_group(),
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": commits,
            "auto.commit.interval.ms": 100,
            "log_level": 0,
        }
    )


def rd_partition(offset: int = confluent_kafka.OFFSET_INVALID) -> confluent_kafka.TopicPartition:
    """The partition, at the offset that the group has committed."""
    return confluent_kafka.TopicPartition(TOPIC, 0, offset)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_reads_what_it_was_assigned(bootstrap: str, protocol: str) -> None:
    """Without a position: from where auto.offset.reset says, as nothing was ever committed."""
    consumer = rd_consumer(bootstrap, protocol)
    consumer.assign([rd_partition()])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert (message.error(), message.value()) == (None, b"hello")
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_shares_a_topic_as_a_group(bootstrap: str, protocol: str) -> None:
    """Two members have one half each; when one leaves, the other has everything."""
    group = new_group()
    first, second = (rd_consumer(bootstrap, protocol, group) for _ in range(2))
    for consumer in (first, second):
        consumer.subscribe([SHARED])
    polled(first, second, until=lambda: len(first.assignment()) == len(second.assignment()) == 2)
    assert {each.partition for each in (*first.assignment(), *second.assignment())} == {0, 1, 2, 3}
    first.close()
    polled(second, until=lambda: len(second.assignment()) == 4)
    second.close()


def polled(*consumers: confluent_kafka.Consumer, until: Callable[[], bool]) -> None:
    """Poll all consumers until a condition holds."""
    end = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < end, "it takes too long"
        for consumer in consumers:
            consumer.poll(0.1)


def test_librdkafka_reads_on_from_what_was_committed(bootstrap: str) -> None:
    """Another consumer of the group, after the first one was closed."""
    consumer = rd_consumer(bootstrap, group="rd-commits")
    consumer.assign([rd_partition()])
    consumer.commit(offsets=[rd_partition(1)], asynchronous=False)
    consumer.close()
    other = rd_consumer(bootstrap, group="rd-commits")
    (found,) = other.committed([rd_partition()], PATIENCE_S)
    assert found.offset == 1
    other.close()


def test_librdkafka_commits_offsets_in_its_transactions(bootstrap: str) -> None:
    """They count if the transaction is committed, and not if it is aborted."""
    group = new_group()
    consumer = rd_consumer(bootstrap, group=group, commits=False)
    consumer.subscribe([TOPIC])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": group, "log_level": 0}
    )
    producer.init_transactions(PATIENCE_S)
    for decide, expected in (
        (producer.abort_transaction, confluent_kafka.OFFSET_INVALID),
        (producer.commit_transaction, 1),
    ):
        producer.begin_transaction()
        producer.produce(SHARED, b"copy")
        producer.send_offsets_to_transaction(
            [rd_partition(1)], consumer.consumer_group_metadata(), PATIENCE_S
        )
        decide(PATIENCE_S)
        (found,) = consumer.committed([rd_partition()], PATIENCE_S)
        assert found.offset == expected
    consumer.close()


def test_librdkafka_administers_groups(bootstrap: str) -> None:
    """It alters and lists offsets, lists groups, and deletes them."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    group = "rd-admin"
    moved = ConsumerGroupTopicPartitions(group, [rd_partition(1)])
    altered = admin.alter_consumer_group_offsets([moved])[group].result(PATIENCE_S)
    assert [each.error for each in altered.topic_partitions] == [None]
    asked = ConsumerGroupTopicPartitions(group, [rd_partition()])
    found = admin.list_consumer_group_offsets([asked])[group].result(PATIENCE_S)
    assert [each.offset for each in found.topic_partitions] == [1]
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert group in {each.group_id for each in listed.valid}
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])
    assert admin.delete_consumer_groups([group])[group].result(PATIENCE_S) is None
    with pytest.raises(KafkaException) as refusal:
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert refusal.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


# -- kafka-python ------------------------------------------------------------------------------


@pytest.fixture
def py(bootstrap: str) -> Iterator[Any]:
    """kafka-python's consumer, in a group."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=new_group(),
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    yield consumer
    consumer.close()


def test_kafka_python_reads_what_it_was_assigned(py: Any) -> None:
    """From the beginning."""
    py.assign([TopicPartition(TOPIC, 0)])
    assert next(py).value == b"hello"


def test_kafka_python_reads_as_a_member(py: Any) -> None:
    """From the beginning."""
    py.subscribe([TOPIC])
    assert next(py).value == b"hello"


def test_kafka_python_commits(py: Any) -> None:
    """And is told what it committed."""
    partition = TopicPartition(TOPIC, 0)
    py.assign([partition])
    py.commit({partition: OffsetAndMetadata(1, "", -1)})
    assert py.committed(partition) == 1


# -- aiokafka ----------------------------------------------------------------------------------


def with_aiokafka(
    bootstrap: str, job: Callable[[AIOKafkaConsumer], Awaitable[Any]], **options: Any
) -> Any:
    """What `job` gives with one of its consumers, in a group."""

    async def main() -> Any:
        values = {"group_id": new_group(), "auto_offset_reset": "earliest", **options}
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, **values)
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await job(consumer)
            finally:
                await consumer.stop()

    return asyncio.run(main())


async def aio_assigned(consumer: AIOKafkaConsumer) -> Any:
    consumer.assign([AioPartition(TOPIC, 0)])
    await consumer.start()
    return (await consumer.getone()).value


def test_aiokafka_reads_what_it_was_assigned(bootstrap: str) -> None:
    """From the beginning; it may not commit by itself, which would be refused."""
    assert with_aiokafka(bootstrap, aio_assigned, enable_auto_commit=False) == b"hello"


def test_aiokafka_reads_as_a_member(bootstrap: str) -> None:
    """From the beginning."""

    async def subscribe(consumer: AIOKafkaConsumer) -> Any:
        consumer.subscribe([TOPIC])
        await consumer.start()
        return (await consumer.getone()).value

    assert with_aiokafka(bootstrap, subscribe) == b"hello"


def test_aiokafka_commits(bootstrap: str) -> None:
    """When it is told to, and by itself when it is closed."""

    async def commit(consumer: AIOKafkaConsumer) -> Any:
        consumer.assign([AioPartition(TOPIC, 0)])
        await consumer.start()
        await consumer.commit({AioPartition(TOPIC, 0): 0})
        return await aio_committed(consumer)

    async def aio_committed(consumer: AIOKafkaConsumer) -> Any:
        return await consumer.committed(AioPartition(TOPIC, 0))

    async def assigned_committed(consumer: AIOKafkaConsumer) -> Any:
        consumer.assign([AioPartition(TOPIC, 0)])
        await consumer.start()
        return await aio_committed(consumer)

    options: dict[str, Any] = {"group_id": "aio-commits"}
    assert with_aiokafka(bootstrap, commit, enable_auto_commit=False, **options) == 0
    assert with_aiokafka(bootstrap, aio_assigned, **options) == b"hello"
    assert with_aiokafka(bootstrap, assigned_committed, **options) == 1


def test_aiokafka_commits_offsets_in_its_transactions(bootstrap: str) -> None:
    """They count if the transaction is committed, and not if it is aborted."""
    group = new_group()

    async def main() -> list[Any]:
        found: list[Any] = []
        partition = AioPartition(TOPIC, 0)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
        )
        consumer.assign([partition])
        await consumer.start()
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=group)
        await producer.start()
        for decide in (producer.abort_transaction, producer.commit_transaction):
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({partition: 1}, group)
            await decide()
            found.append(await consumer.committed(partition))
        await producer.stop()
        await consumer.stop()
        return found

    assert asyncio.run(main()) == [None, 1]


# -- kcat --------------------------------------------------------------------------------------


def kcat(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """kcat to its end."""
    require("kcat")
    return subprocess.run(
        ["kcat", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_kcat_reads_as_a_member(bootstrap: str) -> None:
    """And ends when it was told to."""
    member = kcat("-b", bootstrap, "-o", "beginning", "-c", "1", "-G", new_group(), TOPIC)
    assert (member.returncode, member.stdout) == (0, "hello\n")
