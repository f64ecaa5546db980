"""confluent-kafka behind the interface of foreign clients."""

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as RdTopic

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


class Confluent:
    """confluent-kafka: the current librdkafka."""

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
