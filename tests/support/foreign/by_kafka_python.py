"""kafka-python behind the interface of foreign clients."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.clients.kafka_python import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    TopicAlreadyExistsError,
    TopicPartition,
)
from tests.support.foreign.face import (
    PARTITION,
    PARTITIONS,
    PATIENCE_S,
    REPLICAS,
    Feature,
    Message,
    Offsets,
    bounded,
    in_the_future_ms,
)


class KafkaPython:
    """kafka-python: a protocol implementation of its own."""

    name = "kafka-python"
    cannot: Mapping[Feature, str] = {}

    def create_topic(self, bootstrap: str, topic: str) -> bool:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
        try:
            admin.create_topics([NewTopic(topic, PARTITIONS, REPLICAS)])
        except TopicAlreadyExistsError:
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
            partition = TopicPartition(topic, PARTITION)
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
            partition = TopicPartition(topic, PARTITION)
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
