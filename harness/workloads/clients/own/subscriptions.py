"""What members of a classic group tell each other, and how the leader assigns. Pure.

The broker passes these bytes on unread. They have the format of Kafka's consumers, so that tools
can read them.
"""

import io
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kio.schema.consumer_protocol_assignment.v0 import data as assignments
from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from nodes.ids import TopicPartition

_VERSION: Final = struct.Struct(">h")
_write_subscription = entity_writer(ConsumerProtocolSubscription)
_write_assignment = entity_writer(ConsumerProtocolAssignment)
_read_assignment = entity_reader(ConsumerProtocolAssignment)


def subscription(topics: Iterable[str]) -> bytes:
    """Encode the topics that a member wants."""
    return _encode(_write_subscription, ConsumerProtocolSubscription(topics=tuple(topics)))


def assignment(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Encode the partitions that a member gets, by topic."""
    rows = tuple(
        assignments.TopicPartition(topic=TopicName(topic), partitions=tuple(map(i32, numbers)))
        for topic, numbers in partitions.items()
    )
    return _encode(_write_assignment, ConsumerProtocolAssignment(assigned_partitions=rows))


def assigned(data: bytes) -> tuple[TopicPartition, ...]:
    """Decode the partitions in an assignment; none in empty data."""
    if not data:
        return ()
    read, _ = _read_assignment(data, _VERSION.size)
    return tuple(
        TopicPartition(str(row.topic), int(number))
        for row in read.assigned_partitions
        for number in row.partitions
    )


def by_range(
    members: Sequence[str], partitions: Mapping[str, int]
) -> Mapping[str, Mapping[str, range]]:
    """Divide the partitions of each topic among the members, as Kafka's range assignor does.

    partitions: the number of each topic. Return the partitions of each member by topic. The same
    members get the first partitions of all topics.
    """
    result: dict[str, dict[str, range]] = {member: {} for member in sorted(members)}
    for topic, count in partitions.items():
        share, rest = divmod(count, len(members))
        start = 0
        for number, shares in enumerate(result.values()):
            end = start + share + (number < rest)
            shares[topic] = range(start, end)
            start = end
    return result


def _encode(write: object, entity: object) -> bytes:
    buffer = io.BytesIO()
    buffer.write(_VERSION.pack(0))
    write(buffer, entity)  # type: ignore[operator]
    return buffer.getvalue()
