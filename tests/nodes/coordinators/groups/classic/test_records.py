"""The record of a classic group, against bytes that Kafka 4.2.0's own classes wrote."""

from dataclasses import replace

import pytest

from nodes.coordinators.groups.classic.records import (
    GROUP_METADATA,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    group_record,
    group_tombstone,
)
from nodes.coordinators.records import CoordinatorRecord, RecordError, RecordTypes

TYPES = RecordTypes([GROUP_METADATA])

STATIC = MemberMetadata(
    member_id="m-1",
    group_instance_id="i",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=bytes([0, 1, 2]),
    assignment=bytes([3]),
)
DYNAMIC = MemberMetadata(
    member_id="m-2",
    client_id="",
    client_host="/::1",
    rebalance_timeout=10,
    session_timeout=6_000,
    subscription=b"",
    assignment=b"",
)
VALUE = GroupMetadataValue(
    protocol_type="consumer",
    generation=7,
    protocol="range",
    leader="m-1",
    current_state_timestamp=1_700_000_000_123,
    members=(STATIC, DYNAMIC),
)
EMPTY = GroupMetadataValue(
    protocol_type="",
    generation=0,
    protocol=None,
    leader=None,
    current_state_timestamp=5,
    members=(),
)

KEY = bytes.fromhex("0002000567726f7570")
VALUES = [
    "00000008636f6e73756d657200000007000572616e676500036d2d310000000200036d2d31000163000a"
    "2f3132372e302e302e310000afc800000003000102000000010300036d2d32000000042f3a3a310000"
    "17700000000000000000",
    "00010008636f6e73756d657200000007000572616e676500036d2d310000000200036d2d31000163000a"
    "2f3132372e302e302e31000493e00000afc800000003000102000000010300036d2d32000000042f3a3a31"
    "0000000a000017700000000000000000",
    "00020008636f6e73756d657200000007000572616e676500036d2d310000018bcfe5687b00000002"
    "00036d2d31000163000a2f3132372e302e302e31000493e00000afc800000003000102000000010300036d2d32"
    "000000042f3a3a310000000a000017700000000000000000",
    "00030008636f6e73756d657200000007000572616e676500036d2d310000018bcfe5687b00000002"
    "00036d2d31000169000163000a2f3132372e302e302e31000493e00000afc8000000030001020000000103"
    "00036d2d32ffff000000042f3a3a310000000a000017700000000000000000",
    "000409636f6e73756d6572000000070672616e6765046d2d310000018bcfe5687b03046d2d31026902630b"
    "2f3132372e302e302e31000493e00000afc804000102020300046d2d320001052f3a3a310000000a"
    "0000177001010000",
]
EMPTY_VALUE = bytes.fromhex("0003000000000000ffffffff000000000000000500000000")


def known_in(version: int) -> GroupMetadataValue:
    """VALUE as it is after a version that lacks some fields."""
    members = tuple(
        replace(
            each,
            group_instance_id=each.group_instance_id if version >= 3 else None,
            rebalance_timeout=each.rebalance_timeout if version >= 1 else -1,
        )
        for each in VALUE.members
    )
    timestamp = VALUE.current_state_timestamp if version >= 2 else -1
    return replace(VALUE, members=members, current_state_timestamp=timestamp)


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_written_and_read_as_kafka_does(version: int) -> None:
    """The bytes of each version are those of Kafka's GroupMetadataValue."""
    data = bytes.fromhex(VALUES[version])
    key = GroupMetadataKey(group="group")
    assert GROUP_METADATA.encode(key, VALUE, version) == CoordinatorRecord(KEY, data)
    decoded = TYPES.decode(CoordinatorRecord(KEY, data))
    assert decoded is not None
    assert (decoded.key, decoded.value) == (key, known_in(version))


def test_the_written_version_is_that_of_kafka_4_2() -> None:
    """Kafka 4.2 writes version 3, also for a group that nobody has joined yet."""
    assert group_record("group", VALUE) == CoordinatorRecord(KEY, bytes.fromhex(VALUES[3]))
    assert group_record("group", EMPTY) == CoordinatorRecord(KEY, EMPTY_VALUE)


def test_a_deleted_group_is_a_key_without_a_value() -> None:
    """A tombstone has the group's key."""
    assert group_tombstone("group") == CoordinatorRecord(KEY, None)


def test_a_newer_version_is_refused() -> None:
    """A record of a version that this build cannot read raises."""
    with pytest.raises(RecordError, match="version 5"):
        TYPES.decode(CoordinatorRecord(KEY, b"\x00\x05" + bytes.fromhex(VALUES[4])[2:]))
