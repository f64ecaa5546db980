"""What members of a classic group tell each other, and how the leader assigns. Pure.

The broker passes these bytes on unread. They have the format of Kafka's consumers, so that tools
can read them.
"""

import io
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kio.schema.consumer_protocol_assignment.v0.data import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

_VERSION: Final = struct.Struct(">h")
_write_subscription = entity_writer(ConsumerProtocolSubscription)
_write_assignment = entity_writer(ConsumerProtocolAssignment)
_read_assignment = entity_reader(ConsumerProtocolAssignment)


def subscription(topics: Iterable[str]) -> bytes:
    """Encode the topics that a member wants."""
    return _encode(_write_subscription, ConsumerProtocolSubscription(topics=tuple(topics)))


def assignment(topic: str, partitions: Iterable[int]) -> bytes:
    """Encode the partitions of one topic that a member gets."""
    rows = (TopicPartition(topic=TopicName(topic), partitions=tuple(map(i32, partitions))),)
    return _encode(_write_assignment, ConsumerProtocolAssignment(assigned_partitions=rows))


def assigned(data: bytes, topic: str) -> tuple[int, ...]:
    """Decode the partitions of `topic` in an assignment; none in empty data."""
    if not data:
        return ()
    read, _ = _read_assignment(data, _VERSION.size)
    return tuple(
        int(number)
        for row in read.assigned_partitions
        if row.topic == topic
        for number in row.partitions
    )


def by_range(members: Sequence[str], partitions: int) -> Mapping[str, range]:
    """Divide the partitions of one topic among the members, as Kafka's range assignor does."""
    share, rest = divmod(partitions, len(members))
    result: dict[str, range] = {}
    start = 0
    for number, member in enumerate(sorted(members)):
        end = start + share + (number < rest)
        result[member] = range(start, end)
        start = end
    return result


def _encode(write: object, entity: object) -> bytes:
    buffer = io.BytesIO()
    buffer.write(_VERSION.pack(0))
    write(buffer, entity)  # type: ignore[operator]
    return buffer.getvalue()
