"""Other people's Kafka clients behind one face, and a written list of what each cannot do.

Every adapter opens a client for one call and closes it again, so that no test depends on what
another left in a client's caches. Bytes go in and come out unchanged; what a client cannot send or
show is in its `cannot`, with the reason, and nowhere else.
"""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.errors import TopicAlreadyExistsError as AioTopicExists
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as RdTopic

from tests.harness.kafka_python import KafkaAdminClient, KafkaConsumer, KafkaProducer
from tests.harness.kafka_python import NewTopic as PyTopic
from tests.harness.kafka_python import TopicAlreadyExistsError as PyTopicExists
from tests.harness.kafka_python import TopicPartition as PyPartition

T = TypeVar("T")

PATIENCE_S = 60.0
"""The bound of every wait: far above what a busy machine needs."""
PARTITION = 0
PARTITIONS, REPLICAS = 2, 3


class Feature(StrEnum):
    """What a client may or may not offer."""

    ADMIN = "admin"
    EMPTY_VALUE = "empty value"
    NULL_VALUE = "null value"
    EMPTY_KEY = "empty key"
    NUL_IN_HEADER = "NUL in a header"


@dataclass(frozen=True, slots=True)
class Message:
    """A record as its sender gives it and its reader gets it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def needs(self) -> frozenset[Feature]:
        """What a client must offer to send it."""
        wanted = {
            Feature.EMPTY_VALUE: self.value == b"",
            Feature.NULL_VALUE: self.value is None,
            Feature.EMPTY_KEY: self.key == b"",
            Feature.NUL_IN_HEADER: any(b"\0" in value for _, value in self.headers),
        }
        return frozenset(feature for feature, needed in wanted.items() if needed)


@dataclass(frozen=True, slots=True)
class Offsets:
    """Answers of ListOffsets; None for a time after the last record."""

    earliest: int
    latest: int
    at_time: int | None
    after_the_end: int | None


class Client(Protocol):
    """One foreign client. `acks` is 0, 1 or -1; `codec` none, gzip, snappy, lz4 or zstd."""

    name: str
    cannot: Mapping[Feature, str]

    def create_topic(self, bootstrap: str, topic: str) -> bool:
        """Create a topic by the client's admin API; false when there is one of that name."""
        ...

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> None:
        """Send to PARTITION in order, wait for what acknowledgements there are, raise if none."""
        ...

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        """Assign PARTITION, read `count` records from its beginning."""
        ...

    def offsets(self, bootstrap: str, topic: str, at_ms: int) -> Offsets:
        """List PARTITION's offsets: the ends, by time `at_ms`, and by a time far in the future."""
        ...


def in_the_future_ms() -> int:
    """A timestamp that no record has yet."""
    return int(time.time() * 1000) + 3_600_000


def bounded(what: str) -> Iterable[None]:
    """Rounds of a poll loop; raises at the bound."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        yield
    raise TimeoutError(f"{what} after {PATIENCE_S:.0f} s")


class Confluent:
    """confluent-kafka: librdkafka of today."""

    name = "confluent-kafka"
    cannot: Mapping[Feature, str] = {}

    def create_topic(self, bootstrap: str, topic: str, replicas: int = REPLICAS) -> bool:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        made = admin.create_topics([RdTopic(topic, PARTITIONS, replicas)])[topic]
        try:
            made.result(PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
            }
        )
        failed: list[str] = []
        for message in messages:
            producer.produce(
                topic,
                message.value,
                message.key,
                partition=PARTITION,
                headers=list(message.headers),
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
        left = producer.flush(PATIENCE_S)
        if failed or left:
            raise RuntimeError(f"{left} of {len(messages)} are not sent, {failed} failed")

    def consume(
        self, bootstrap: str, topic: str, count: int, *, group: str = "nobody"
    ) -> list[Message]:
        consumer = self._consumer(bootstrap, group)
        try:
            consumer.assign([RdPartition(topic, PARTITION, OFFSET_BEGINNING)])
            read: list[Message] = []
            for _ in bounded(f"not all {count} records of {topic}"):
                for record in consumer.consume(min(count - len(read), 1000), 0.2):
                    if record.error():
                        raise KafkaException(record.error())
                    headers = tuple(record.headers() or ())
                    read.append(Message(record.value(), record.key(), headers))
                if len(read) >= count:
                    break
            return read
        finally:
            consumer.close()

    def offsets(self, bootstrap: str, topic: str, at_ms: int) -> Offsets:
        consumer = self._consumer(bootstrap, "nobody")
        try:
            partition = RdPartition(topic, PARTITION)
            low, high = consumer.get_watermark_offsets(partition, timeout=PATIENCE_S)
            at_time, after = (
                consumer.offsets_for_times(
                    [RdPartition(topic, PARTITION, time_ms)], timeout=PATIENCE_S
                )[0].offset
                for time_ms in (at_ms, in_the_future_ms())
            )
        finally:
            consumer.close()
        # librdkafka says "end" where the protocol says that there is no such record.
        return Offsets(low, high, at_time, None if after < 0 else after)

    @staticmethod
    def _consumer(bootstrap: str, group: str) -> Any:
        return Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )


class KafkaPython:
    """kafka-python: a protocol implementation of its own."""

    name = "kafka-python"
    cannot: Mapping[Feature, str] = {}

    def create_topic(self, bootstrap: str, topic: str) -> bool:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
        try:
            admin.create_topics([PyTopic(topic, PARTITIONS, REPLICAS)])
        except PyTopicExists:
            return False
        finally:
            admin.close()
        return True

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            compression_type=None if codec == "none" else codec,
            acks=acks,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=PARTITION,
                )
                for message in messages
            ]
            producer.flush(PATIENCE_S)
            for each in sent:
                each.get(PATIENCE_S)
        finally:
            producer.close()

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        consumer = self._consumer(bootstrap)
        try:
            partition = PyPartition(topic, PARTITION)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            read: list[Message] = []
            for _ in bounded(f"not all {count} records of {topic}"):
                records = consumer.poll(200).get(partition, ())
                read += [Message(each.value, each.key, tuple(each.headers)) for each in records]
                if len(read) >= count:
                    break
            return read
        finally:
            consumer.close()

    def offsets(self, bootstrap: str, topic: str, at_ms: int) -> Offsets:
        consumer = self._consumer(bootstrap)
        try:
            partition = PyPartition(topic, PARTITION)
            at_time, after = (
                consumer.offsets_for_times({partition: time_ms})[partition]
                for time_ms in (at_ms, in_the_future_ms())
            )
            return Offsets(
                consumer.beginning_offsets([partition])[partition],
                consumer.end_offsets([partition])[partition],
                at_time and at_time.offset,
                after and after.offset,
            )
        finally:
            consumer.close()

    @staticmethod
    def _consumer(bootstrap: str) -> Any:
        return KafkaConsumer(
            bootstrap_servers=bootstrap.split(","), group_id=None, enable_auto_commit=False
        )


class AioKafka:
    """aiokafka: kafka-python's younger relative on asyncio."""

    name = "aiokafka"
    cannot: Mapping[Feature, str] = {}

    def create_topic(self, bootstrap: str, topic: str) -> bool:
        async def create() -> bool:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            try:
                answer = await admin.create_topics([AioTopic(topic, PARTITIONS, REPLICAS)])
            finally:
                await admin.close()
            errors = {error for _, error, *_ in answer.topic_errors}
            if errors - {0, AioTopicExists.errno}:
                raise RuntimeError(f"{topic}: errors {errors}")
            return errors == {0}

        return self._run(create())

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> None:
        async def send() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all" if acks == -1 else acks,
                enable_idempotence=idempotent,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic,
                        value=message.value,
                        key=message.key,
                        headers=list(message.headers),
                        partition=PARTITION,
                    )
                    for message in messages
                ]
                await asyncio.gather(*sent)
            finally:
                await producer.stop()

        self._run(send())

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        async def read() -> list[Message]:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
            await consumer.start()
            try:
                partition = AioPartition(topic, PARTITION)
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
                found: list[Message] = []
                while len(found) < count:
                    records = (await consumer.getmany(timeout_ms=200)).get(partition, ())
                    found += [
                        Message(each.value, each.key, tuple(each.headers)) for each in records
                    ]
                return found
            finally:
                await consumer.stop()

        return self._run(read())

    def offsets(self, bootstrap: str, topic: str, at_ms: int) -> Offsets:
        async def ask() -> Offsets:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
            await consumer.start()
            try:
                partition = AioPartition(topic, PARTITION)
                at_time, after = [
                    (await consumer.offsets_for_times({partition: time_ms}))[partition]
                    for time_ms in (at_ms, in_the_future_ms())
                ]
                return Offsets(
                    (await consumer.beginning_offsets([partition]))[partition],
                    (await consumer.end_offsets([partition]))[partition],
                    at_time and at_time.offset,
                    after and after.offset,
                )
            finally:
                await consumer.stop()

        return self._run(ask())

    @staticmethod
    def _run(job: Coroutine[Any, Any, T]) -> T:
        async def bound() -> T:
            return await asyncio.wait_for(job, PATIENCE_S)

        return asyncio.run(bound())


class Kcat:
    """kcat: Debian's program on Debian's librdkafka, years older than confluent-kafka's."""

    name = "kcat"
    cannot: Mapping[Feature, str] = {
        Feature.ADMIN: "kcat has no command that creates a topic",
        Feature.EMPTY_VALUE: "kcat skips empty files and empty lines",
        Feature.NULL_VALUE: "kcat -Z makes null of what is empty, and then skips it without a key",
        Feature.EMPTY_KEY: "kcat -k '' sends no key",
        Feature.NUL_IN_HEADER: "kcat takes headers as arguments and prints them as C strings",
    }

    def create_topic(self, bootstrap: str, topic: str) -> bool:
        raise NotImplementedError(self.cannot[Feature.ADMIN])

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> None:
        settings = ["-X", f"acks={acks}", "-X", f"enable.idempotence={str(idempotent).lower()}"]
        with tempfile.TemporaryDirectory() as directory:
            # A key and headers hold for a whole call.
            for (key, headers), run in groupby(messages, lambda each: (each.key, each.headers)):
                options: list[str | bytes] = [] if key is None else ["-k", key]
                for name, value in headers:
                    options += ["-H", name.encode() + b"=" + value]
                paths = []
                for number, message in enumerate(run):
                    paths.append(Path(directory, str(number)))
                    paths[-1].write_bytes(message.value or b"")
                self._kcat(
                    "-P", "-b", bootstrap, "-t", topic, "-p", str(PARTITION), "-z", codec,
                    *settings, *options, *map(str, paths),
                )  # fmt: skip

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        output = self._kcat(
            "-C", "-q", "-b", bootstrap, "-t", topic, "-p", str(PARTITION), "-o", "beginning",
            "-c", str(count), "-f", "%K %S %h\n%k%s\n",
        )  # fmt: skip
        read = []
        while output:
            line, _, output = output.partition(b"\n")
            key_size, value_size, headers = line.split(b" ", 2)
            key, output = self._take(output, int(key_size))
            value, output = self._take(output, int(value_size))
            output = output.removeprefix(b"\n")
            read.append(Message(value, key, self._headers(headers)))
        return read

    def offsets(self, bootstrap: str, topic: str, at_ms: int) -> Offsets:
        def ask(time_ms: int) -> int:
            answer = self._kcat("-Q", "-b", bootstrap, "-t", f"{topic}:{PARTITION}:{time_ms}")
            return int(answer.split()[-1])

        after = ask(in_the_future_ms())
        return Offsets(ask(-2), ask(-1), ask(at_ms), None if after < 0 else after)

    @staticmethod
    def _take(data: bytes, size: int) -> tuple[bytes | None, bytes]:
        return (None, data) if size < 0 else (data[:size], data[size:])

    @staticmethod
    def _headers(text: bytes) -> tuple[tuple[str, bytes], ...]:
        pairs = [pair.partition(b"=") for pair in text.split(b",") if pair]
        return tuple((name.decode(), value) for name, _, value in pairs)

    @staticmethod
    def _kcat(*arguments: str | bytes) -> bytes:
        done = subprocess.run(
            ["kcat", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode != 0 or done.stderr:
            raise RuntimeError(f"kcat: exit code {done.returncode}: {done.stderr.decode()}")
        return done.stdout


CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), AioKafka(), Kcat())
