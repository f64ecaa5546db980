"""aiokafka behind the interface of foreign clients."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError

from tests.support.foreign.face import (
    PARTITION,
    PARTITIONS,
    PATIENCE_S,
    REPLICAS,
    Feature,
    Message,
    Offsets,
    in_the_future_ms,
)

T = TypeVar("T")


class AioKafka:
    """aiokafka: kafka-python's younger relative on asyncio."""

    name = "aiokafka"
    cannot: Mapping[Feature, str] = {}

    def create_topic(self, bootstrap: str, topic: str) -> bool:
        async def create() -> bool:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            try:
                answer = await admin.create_topics([NewTopic(topic, PARTITIONS, REPLICAS)])
            finally:
                await admin.close()
            errors = {error for _, error, *_ in answer.topic_errors}
            if errors - {0, TopicAlreadyExistsError.errno}:
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
                partition = TopicPartition(topic, PARTITION)
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
                partition = TopicPartition(topic, PARTITION)
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
