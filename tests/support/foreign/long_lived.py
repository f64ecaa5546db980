"""Foreign clients that stay open: each says, whenever asked, what it knows of the cluster. Its
knowledge must survive the death of any broker, also of the one to which it is connected. Readers
here prefer the broker of their own rack (KIP-392)."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as RdPartition

from tests.support.clients.kafka_python import KafkaAdminClient as PyAdmin
from tests.support.clients.kafka_python import KafkaConsumer as PyConsumer
from tests.support.clients.kafka_python import KafkaError as PyError
from tests.support.clients.kafka_python import KafkaProducer as PyProducer
from tests.support.clients.kafka_python import TopicPartition as PyPartition
from tests.support.foreign import PARTITION, PATIENCE_S, bounded

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View:
    """A client's view: the brokers, and the leader of PARTITION of its topic."""

    brokers: frozenset[int]
    leader: int | None


NOTHING = View(frozenset(), None)
"""What a client knows that asked a broker while it died, and says so."""


@dataclass(frozen=True, slots=True)
class Watch:
    """An open client: its view, and one send (acks=all) that must be acknowledged."""

    view: Callable[[], View]
    send: Callable[[bytes], None]


@contextmanager
def confluent(bootstrap: str, topic: str) -> Iterator[Watch]:
    """The current librdkafka: one producer, its metadata and its sends."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": -1, "log_level": 0})

    def view() -> View:
        try:
            found = producer.list_topics(topic, timeout=PATIENCE_S)
        except KafkaException:
            return NOTHING
        partition = found.topics[topic].partitions.get(PARTITION)
        leader = -1 if partition is None else int(partition.leader)
        return View(frozenset(found.brokers), leader if leader >= 0 else None)

    def send(value: bytes) -> None:
        failed: list[str] = []
        producer.produce(
            topic,
            value,
            partition=PARTITION,
            on_delivery=lambda error, _: failed.append(str(error)) if error else None,
        )
        left = producer.flush(PATIENCE_S)
        assert (left, failed) == (0, [])

    try:
        yield Watch(view, send)
    finally:
        producer.close()


@contextmanager
def kafka_python(bootstrap: str, topic: str) -> Iterator[Watch]:
    """kafka-python: an administrative client that stays open, and a producer."""
    admin = PyAdmin(bootstrap_servers=bootstrap.split(","))
    producer = PyProducer(bootstrap_servers=bootstrap.split(","), acks=-1)

    def view() -> View:
        try:
            (found,) = admin.describe_topics([topic])
            brokers = admin.describe_cluster()["brokers"]
        except PyError:
            return NOTHING
        (leader,) = [
            each["leader_id"]
            for each in found["partitions"]
            if each["partition_index"] == PARTITION
        ]
        return View(
            # It asks for fenced brokers too.
            frozenset(each["broker_id"] for each in brokers if not each["is_fenced"]),
            leader if leader >= 0 else None,
        )

    try:
        yield Watch(
            view,
            lambda value: producer.send(topic, value, partition=PARTITION).get(PATIENCE_S),
        )
    finally:
        producer.close()
        admin.close()


@contextmanager
def aiokafka(bootstrap: str, topic: str) -> Iterator[Watch]:
    """aiokafka: the same on a loop of its own."""
    with asyncio.Runner() as runner:

        def run(job: Coroutine[Any, Any, T]) -> T:
            async def bound() -> T:
                return await asyncio.wait_for(job, PATIENCE_S)

            return runner.run(bound())

        async def open_all() -> tuple[Any, Any]:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
            await admin.start()
            await producer.start()
            return admin, producer

        async def look() -> View:
            try:
                (found,) = await admin.describe_topics([topic])
                brokers = (await admin.describe_cluster())["brokers"]
            except AioError:
                return NOTHING
            (leader,) = [
                each["leader"] for each in found["partitions"] if each["partition"] == PARTITION
            ]
            return View(
                frozenset(each["node_id"] for each in brokers), leader if leader >= 0 else None
            )

        async def close_all() -> None:
            await producer.stop()
            await admin.close()

        admin, producer = run(open_all())
        try:
            yield Watch(
                lambda: run(look()),
                lambda value: run(producer.send_and_wait(topic, value, partition=PARTITION)),
            )
        finally:
            run(close_all())


@contextmanager
def kcat(bootstrap: str, topic: str) -> Iterator[Watch]:
    """kcat: a new process each time, with the addresses of all brokers, also of the dead one."""

    def call(*arguments: str, given: bytes = b"") -> bytes:
        return subprocess.run(
            ["kcat", "-b", bootstrap, "-t", topic, *arguments],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it complains of the dead broker, rightly
            timeout=PATIENCE_S,
            check=True,
        ).stdout

    def view() -> View:
        found = json.loads(call("-L", "-J"))
        (partition,) = [
            each for each in found["topics"][0]["partitions"] if each["partition"] == PARTITION
        ]
        leader = partition.get("leader", -1)
        return View(
            frozenset(each["id"] for each in found["brokers"]), leader if leader >= 0 else None
        )

    def send(value: bytes) -> None:
        call("-P", "-p", str(PARTITION), "-X", "acks=all", given=value)

    yield Watch(view, send)


WATCHES = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka,
           "kcat": kcat}  # fmt: skip


# --- readers in a rack


def read_confluent(bootstrap: str, topic: str, count: int, rack: str) -> int:
    """Read `count` records with a librdkafka consumer in `rack`; return the bytes of values."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "client.rack": rack,
        }
    )
    try:
        consumer.assign([RdPartition(topic, PARTITION, OFFSET_BEGINNING)])
        read = size = 0
        for _ in bounded(f"not all {count} records of {topic}"):
            for record in consumer.consume(1000, 0.2):
                if record.error():
                    raise KafkaException(record.error())
                read, size = read + 1, size + len(record.value())
            if read >= count:
                break
        return size
    finally:
        consumer.close()


def read_kafka_python(bootstrap: str, topic: str, count: int, rack: str) -> int:
    """The same with kafka-python."""
    consumer = PyConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=None,
        enable_auto_commit=False,
        client_rack=rack,
    )
    try:
        partition = PyPartition(topic, PARTITION)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        read = size = 0
        for _ in bounded(f"not all {count} records of {topic}"):
            for record in consumer.poll(200).get(partition, ()):
                read, size = read + 1, size + len(record.value)
            if read >= count:
                break
        return size
    finally:
        consumer.close()


def read_aiokafka(bootstrap: str, topic: str, count: int, rack: str) -> int:
    """The same with aiokafka."""

    async def main() -> int:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, client_rack=rack)
        await consumer.start()
        try:
            partition = AioPartition(topic, PARTITION)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            read = size = 0
            while read < count:
                for record in (await consumer.getmany(timeout_ms=200)).get(partition, ()):
                    read, size = read + 1, size + len(record.value)
            return size
        finally:
            await consumer.stop()

    async def bound() -> int:
        return await asyncio.wait_for(main(), PATIENCE_S)

    return asyncio.run(bound())


def read_kcat(bootstrap: str, topic: str, count: int, rack: str) -> int:
    """The same with kcat, whose values are printed without anything between them."""
    return len(
        subprocess.run(
            ["kcat", "-C", "-q", "-b", bootstrap, "-t", topic, "-p", str(PARTITION), "-o",
             "beginning", "-c", str(count), "-X", f"client.rack={rack}", "-f", "%s"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=PATIENCE_S, check=True,
        ).stdout
    )  # fmt: skip


READERS = {
    "confluent-kafka": read_confluent,
    "kafka-python": read_kafka_python,
    "aiokafka": read_aiokafka,
    "kcat": read_kcat,
}
