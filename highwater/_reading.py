"""Reads a topic to its end, with librdkafka."""

import time
from typing import Any, Final

from highwater._errors import ClusterFailed

POLL_S: Final = 1.0


def read_topic(bootstrap: str, topic: str, deadline_s: float) -> list[bytes]:
    """Return the values of all committed records, partition by partition. Raises ClusterFailed."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "highwater-reads",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=_left_s(deadline_s)).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in known])
        return _values(consumer, topic, sorted(known), deadline_s)
    except KafkaException as error:
        raise ClusterFailed(f"topic {topic} cannot be read: {error}") from error
    finally:
        consumer.close()


def _values(consumer: Any, topic: str, partitions: list[int], deadline_s: float) -> list[bytes]:
    from confluent_kafka import KafkaError

    found: dict[int, list[bytes]] = {each: [] for each in partitions}
    open_ones = set(partitions)
    while open_ones:
        if time.monotonic() > deadline_s:
            raise ClusterFailed(
                f"topic {topic} was not read to its end in time; partitions {sorted(open_ones)} "
                "are missing"
            )
        message = consumer.poll(POLL_S)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()].append(message.value() or b"")
        elif message.error().code() == KafkaError._PARTITION_EOF:
            open_ones.discard(message.partition())
    return [value for each in partitions for value in found[each]]


def _left_s(deadline_s: float) -> float:
    return max(1.0, deadline_s - time.monotonic())
