"""Records of consumer groups, against the bytes that Kafka 4.2's own classes write."""

from typing import Any
from uuid import UUID

import pytest

from nodes.coordinators.groups.consumer import records as r
from nodes.coordinators.records import CoordinatorRecord, Decoded, RecordType, RecordTypes

TOPIC = UUID("00112233-4455-6677-8899-aabbccddeeff")
GROUP = r.GroupKey(group_id="g")
MEMBER = r.MemberKey(group_id="g", member_id="m")
TYPES = RecordTypes(r.RECORD_TYPES)


def partitions(*numbers: int) -> tuple[r.TopicPartitions, ...]:
    return (r.TopicPartitions(topic_id=TOPIC, partitions=numbers),)


# Written by GroupCoordinatorRecordSerde of kafka-group-coordinator 4.2.0.
WRITTEN_BY_KAFKA: list[tuple[RecordType, Any, Any, str, str]] = [
    (
        r.METADATA,
        GROUP,
        r.ConsumerGroupMetadataValue(epoch=7, metadata_hash=0x0102030405060708),
        "0003000167",
        "0000000000070100080102030405060708",
    ),
    (
        r.METADATA,
        GROUP,
        r.ConsumerGroupMetadataValue(epoch=7),
        "0003000167",
        "00000000000700",
    ),
    (
        r.PARTITION_METADATA,
        GROUP,
        r.ConsumerGroupPartitionMetadataValue(
            topics=(
                r.SubscribedTopic(
                    topic_id=TOPIC,
                    topic_name="t",
                    num_partitions=3,
                    partition_metadata=(r.PartitionRacks(partition=1, racks=("r",)),),
                ),
            )
        ),
        "0004000167",
        "00000200112233445566778899aabbccddeeff0274000000030200000001020272000000",
    ),
    (
        r.MEMBER_METADATA,
        MEMBER,
        r.ConsumerGroupMemberMetadataValue(
            instance_id="i",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=("a", "b"),
            subscribed_topic_regex="x.*",
            rebalance_timeout_ms=300_000,
            server_assignor="uniform",
        ),
        "000500016700016d",
        "00000269000263032f68030261026204782e2a000493e008756e69666f726d01000100",
    ),
    (
        r.MEMBER_METADATA,
        MEMBER,
        r.ConsumerGroupMemberMetadataValue(
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=1,
            classic_member_metadata=r.ClassicMemberMetadata(
                session_timeout_ms=45_000,
                supported_protocols=(r.ClassicProtocol(name="range", metadata=b"\1\2"),),
            ),
        ),
        "000500016700016d",
        "000000000263032f6801000000000100010011010000afc8020672616e67650301020000",
    ),
    (
        r.TARGET_ASSIGNMENT_METADATA,
        GROUP,
        r.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=9),
        "0006000167",
        "00000000000900",
    ),
    (
        r.TARGET_ASSIGNMENT_MEMBER,
        MEMBER,
        r.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions(0, 2)),
        "000700016700016d",
        "00000200112233445566778899aabbccddeeff0300000000000000020000",
    ),
    (
        r.CURRENT_MEMBER_ASSIGNMENT,
        MEMBER,
        r.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=5,
            previous_member_epoch=4,
            state=1,
            assigned_partitions=partitions(0),
            partitions_pending_revocation=partitions(1),
        ),
        "000800016700016d",
        "00000000000500000004010200112233445566778899aabbccddeeff020000000000"
        "0200112233445566778899aabbccddeeff02000000010000",
    ),
    (
        r.REGULAR_EXPRESSION,
        r.RegularExpressionKey(group_id="g", regular_expression="x.*"),
        r.ConsumerGroupRegularExpressionValue(topics=("x1", "x2"), version=12, timestamp=1000),
        "00100001670003782e2a",
        "000003037831037832000000000000000c00000000000003e800",
    ),
]


@pytest.mark.parametrize(
    ("kind", "key", "value", "key_bytes", "value_bytes"),
    WRITTEN_BY_KAFKA,
    ids=lambda each: type(each).__name__,
)
def test_a_record_has_kafkas_bytes(
    kind: RecordType, key: Any, value: Any, key_bytes: str, value_bytes: str
) -> None:
    """Written and read."""
    record = CoordinatorRecord(bytes.fromhex(key_bytes), bytes.fromhex(value_bytes))
    assert kind.encode(key, value, 0) == record
    assert TYPES.decode(record) == Decoded(kind, key, value)


def test_a_member_without_the_field_is_read_as_one_of_the_consumer_protocol() -> None:
    """Kafka never writes that; it would read it as one of the classic protocol."""
    key, value = "000500016700016d", "000000000263032f6801000000000100"
    found = TYPES.decode(CoordinatorRecord(bytes.fromhex(key), bytes.fromhex(value + "00")))
    assert found is not None
    assert found.value.classic_member_metadata == r.NOT_CLASSIC


@pytest.mark.parametrize(("kind", "key"), {(each[0], each[1]) for each in WRITTEN_BY_KAFKA})
def test_a_tombstone_has_the_key_alone(kind: RecordType, key: Any) -> None:
    """As Kafka's log cleaner and coordinators expect it."""
    assert TYPES.decode(kind.tombstone(key)) == Decoded(kind, key, None)
