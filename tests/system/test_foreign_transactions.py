"""Transactions of client libraries on the built-in broker: commits, aborts, fencing.

Three nodes run in a thread of this process, on loopback ports and disks in memory.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.support.clients.kafka_python import (
    InvalidProducerEpochError,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    ProducerFencedError,
)
from tests.support.clusters.loopback_cluster import serving
from tests.support.nodes.cluster import UNHURRIED, Cluster

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
PARTITIONS = 3
COPIED = 12
_names = itertools.count()


@pytest.fixture(scope="module", params=["2", "0"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """Addresses of a cluster with this level of transaction.version."""
    cluster = Cluster(
        3, **UNHURRIED, transaction_version=request.param, transaction_state_log_min_isr="2"
    )
    with serving(cluster, data=PARTITIONS) as addresses:
        yield addresses


def new_id() -> str:
    """A transactional id, and the prefix of what is written under it."""
    return f"id-{next(_names)}"


def rd_producer(bootstrap: str, name: str) -> confluent_kafka.Producer:
    """One of librdkafka's, initialised."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def write(producer: confluent_kafka.Producer, name: str, numbers: range) -> None:
    """Send records in the open transaction, to every partition."""
    for number in numbers:
        producer.produce("data", f"{name}/{number}".encode(), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def read(bootstrap: str, name: str, isolation: str = "read_committed") -> list[int]:
    """The numbers that were written under a name, as far as a reader sees them."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("data", partition, 0) for partition in range(PARTITIONS)])
    found, ended = [], set[int]()
    deadline_s = time.monotonic() + PATIENCE_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline_s, "the reader does not reach the end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error, partition, value = message.error(), message.partition(), message.value()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            assert partition is not None
            ended.add(partition)
        elif value is not None and value.startswith(f"{name}/".encode()):
            found.append(int(value.decode().rpartition("/")[2]))
    consumer.close()
    return sorted(found)


def committed(bootstrap: str, name: str, count: int) -> list[int]:
    """What is read at read_committed, once there are `count`; markers follow the commit."""
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found := read(bootstrap, name)) < count and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return found


def test_librdkafka_commits_and_aborts(bootstrap: str) -> None:
    """Several transactions of one producer; what was aborted is hidden from read_committed."""
    name = new_id()
    producer = rd_producer(bootstrap, name)
    for first in range(0, 60, 10):
        producer.begin_transaction()
        write(producer, name, range(first, first + 10))
        if first % 20:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    expected = [*range(10), *range(20, 30), *range(40, 50)]
    assert committed(bootstrap, name, 30) == expected
    assert read(bootstrap, name, "read_uncommitted") == list(range(60))


def test_librdkafka_fences_an_older_producer(bootstrap: str) -> None:
    """Its open transaction is aborted."""
    name = new_id()
    first = rd_producer(bootstrap, name)
    first.begin_transaction()
    write(first, name, range(5))
    second = rd_producer(bootstrap, name)
    second.begin_transaction()
    write(second, name, range(5, 10))
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    second.commit_transaction(PATIENCE_S)
    assert committed(bootstrap, name, 5) == list(range(5, 10))


def test_librdkafka_copies_exactly_once(bootstrap: str) -> None:
    """Consume, transform, produce: offsets are committed with the records, or neither is."""
    name = new_id()
    copies = f"{name}-copies"
    source = rd_producer(bootstrap, f"{name}-source")
    source.begin_transaction()
    write(source, name, range(30))
    source.commit_transaction(PATIENCE_S)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{name}-copier",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["data"])
    producer = rd_producer(bootstrap, f"{name}-copier")
    copied, attempts = 0, 0
    deadline_s = time.monotonic() + PATIENCE_S
    while copied < 30:
        assert time.monotonic() < deadline_s, f"only {copied} were copied"
        messages = [m for m in consumer.consume(10, 1.0) if m.error() is None]
        mine = [m.value() or b"" for m in messages]
        wanted = [value for value in mine if value.startswith(f"{name}/".encode())]
        if not messages:
            continue
        producer.begin_transaction()
        for value in wanted:
            producer.produce("data", value.replace(f"{name}/".encode(), f"{copies}/".encode()))
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()),
            consumer.consumer_group_metadata(),
            PATIENCE_S,
        )
        attempts += 1
        if attempts % 3 == 1 and wanted:  # and read again, from what is committed
            producer.abort_transaction(PATIENCE_S)
            for each in consumer.committed(consumer.assignment(), PATIENCE_S):
                consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
        else:
            producer.commit_transaction(PATIENCE_S)
            copied += len(wanted)
    consumer.close()
    assert committed(bootstrap, copies, 30) == list(range(30))


def test_aiokafka_commits_aborts_and_is_fenced(bootstrap: str) -> None:
    """Its producers speak the older versions of the protocol."""
    name = new_id()

    async def main() -> None:
        first = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await first.start()
        second = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        try:
            for number in range(6):
                await first.begin_transaction()
                await first.send_and_wait("data", f"{name}/{number}".encode(), partition=0)
                await (first.abort_transaction if number % 2 else first.commit_transaction)()
            await second.start()
            with pytest.raises(ProducerFenced):
                async with first.transaction():
                    await first.send_and_wait("data", f"{name}/100".encode(), partition=0)
            async with second.transaction():
                await second.send_and_wait("data", f"{name}/6".encode(), partition=0)
        finally:
            await second.stop()
            await first.stop()

    asyncio.run(main())
    assert committed(bootstrap, name, 4) == [0, 2, 4, 6]


def test_kafka_python_commits_and_aborts(bootstrap: str) -> None:
    """With its transactional producer."""
    name = new_id()
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id=name)
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send("data", f"{name}/{number}".encode(), partition=number % PARTITIONS)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    assert committed(bootstrap, name, 2) == [0, 2]


def test_kafka_python_fences_an_older_producer(bootstrap: str) -> None:
    """Its open transaction is aborted."""
    name = new_id()
    servers = bootstrap.split(",")
    first = KafkaProducer(bootstrap_servers=servers, transactional_id=name)
    first.init_transactions()
    first.begin_transaction()
    first.send("data", f"{name}/0".encode(), partition=0)
    first.flush(PATIENCE_S)
    second = KafkaProducer(bootstrap_servers=servers, transactional_id=name)
    second.init_transactions()
    with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
        first.commit_transaction()
    first.close(timeout=1)
    second.begin_transaction()
    second.send("data", f"{name}/1".encode(), partition=0)
    second.commit_transaction()
    second.close()
    assert committed(bootstrap, name, 1) == [1]


def test_kafka_python_copies_exactly_once(bootstrap: str) -> None:
    """It reads committed records only, and commits its offsets with what it writes."""
    name = new_id()
    source(bootstrap, name)
    servers = bootstrap.split(",")
    consumer = KafkaConsumer(
        "data",
        bootstrap_servers=servers,
        group_id=f"{name}-copier",
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=f"{name}-copier")
    producer.init_transactions()
    copied: set[bytes] = set()
    deadline_s = time.monotonic() + PATIENCE_S
    while len(copied) < COPIED:
        assert time.monotonic() < deadline_s, f"only {len(copied)} were copied"
        batches = consumer.poll(timeout_ms=1000)
        if not batches:
            continue
        values = [each.value for batch in batches.values() for each in batch]
        mine = [value for value in values if value.startswith(f"{name}/".encode())]
        producer.begin_transaction()
        for value in mine:
            producer.send("data", value.replace(b"/", b"-copies/"))
        offsets = {
            partition: OffsetAndMetadata(batch[-1].offset + 1, "", -1)
            for partition, batch in batches.items()
        }
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
        copied.update(mine)
    producer.close()
    consumer.close()
    assert committed(bootstrap, f"{name}-copies", COPIED) == list(range(COPIED))


def test_aiokafka_copies_exactly_once(bootstrap: str) -> None:
    """It reads committed records only, and commits its offsets with what it writes."""
    name = new_id()
    source(bootstrap, name)

    async def main() -> None:
        consumer = AIOKafkaConsumer(
            "data",
            bootstrap_servers=bootstrap,
            group_id=f"{name}-copier",
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{name}-copier")
        await consumer.start()
        await producer.start()
        copied: set[bytes] = set()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while len(copied) < COPIED:
                    batches = await consumer.getmany(timeout_ms=1000)
                    if not batches:
                        continue
                    values = [each.value or b"" for batch in batches.values() for each in batch]
                    mine = [value for value in values if value.startswith(f"{name}/".encode())]
                    offsets = {part: batch[-1].offset + 1 for part, batch in batches.items()}
                    async with producer.transaction():
                        for value in mine:
                            await producer.send("data", value.replace(b"/", b"-copies/"))
                        await producer.send_offsets_to_transaction(offsets, f"{name}-copier")
                    copied.update(mine)
        finally:
            await producer.stop()
            await consumer.stop()

    asyncio.run(main())
    assert committed(bootstrap, f"{name}-copies", COPIED) == list(range(COPIED))


def test_kafka_python_lists_and_describes_transactions(bootstrap: str) -> None:
    """By state, and by a pattern of their ids."""
    name = new_id()
    producer = rd_producer(bootstrap, name)
    producer.begin_transaction()
    write(producer, name, range(1))
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        found = admin.list_transactions(
            state_filters=["Ongoing"], transactional_id_pattern=f"{name[:-1]}[{name[-1]}]"
        )
        assert name in str(found)
        assert name not in str(admin.list_transactions(transactional_id_pattern="none.*"))
        assert "data" in str(admin.describe_transactions([name])[name])
    finally:
        admin.close()
    producer.commit_transaction(PATIENCE_S)


def source(bootstrap: str, name: str) -> None:
    """Write what is to be copied; and as much in a transaction that is aborted."""
    producer = rd_producer(bootstrap, f"{name}-source")
    for begin, ends in (
        (0, producer.commit_transaction),
        (COPIED, producer.abort_transaction),
    ):
        producer.begin_transaction()
        write(producer, name, range(begin, begin + COPIED))
        ends(PATIENCE_S)
