"""The record of a committed offset, against bytes made by hand from Kafka's schema."""

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.coordinators.groups.records import (
    NO_EXPIRY,
    OFFSET_COMMIT,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_commit,
)
from nodes.coordinators.records import CoordinatorRecord, RecordTypes
from nodes.ids import Epoch, Offset

TYPES = RecordTypes([OFFSET_COMMIT])
KEY = OffsetCommitKey(group="g", topic="tt", partition=5)
KEY_BYTES = b"\x00\x01" + b"\x00\x01g" + b"\x00\x02tt" + struct.pack(">i", 5)


def test_version_4_has_the_topic_id_as_a_tag() -> None:
    """Kafka 4.2 writes this version."""
    value = OffsetCommitValue(
        offset=Offset(7),
        leader_epoch=Epoch(2),
        metadata="m",
        commit_timestamp=9,
        topic_id=UUID(int=3),
    )
    record = OFFSET_COMMIT.encode(KEY, value, value.version)
    body = struct.pack(">hqi", 4, 7, 2) + b"\x02m" + struct.pack(">q", 9)
    assert record == CoordinatorRecord(KEY_BYTES, body + b"\x01\x00\x10" + UUID(int=3).bytes)
    decoded = TYPES.decode(record)
    assert decoded is not None
    assert (decoded.key, decoded.value) == (KEY, value)


def test_only_version_1_has_a_time_of_expiry() -> None:
    """And neither leader epoch nor topic id."""
    value = OffsetCommitValue(offset=Offset(7), leader_epoch=Epoch(2), expire_timestamp=11)
    record = OFFSET_COMMIT.encode(KEY, value, value.version)
    assert record.value == struct.pack(">hq", 1, 7) + b"\x00\x00" + struct.pack(">qq", -1, 11)
    decoded = TYPES.decode(record)
    assert decoded is not None
    assert decoded.value == OffsetCommitValue(offset=Offset(7), expire_timestamp=11)


def test_records_of_the_first_versions_are_read() -> None:
    """Their number is 0, their value's version too."""
    old = CoordinatorRecord(
        b"\x00\x00" + KEY_BYTES[2:],
        struct.pack(">hq", 0, 7) + b"\x00\x01m" + struct.pack(">q", 9),
    )
    decoded = TYPES.decode(old)
    assert decoded is not None
    assert decoded.key == KEY
    assert decoded.value == OffsetCommitValue(offset=Offset(7), metadata="m", commit_timestamp=9)


def test_a_tombstone_has_no_value() -> None:
    """It removes the offset."""
    assert OFFSET_COMMIT.tombstone(KEY) == CoordinatorRecord(KEY_BYTES, None)


@given(
    group=st.text(max_size=20),
    topic=st.text(max_size=249),
    partition=st.integers(0, 2**31 - 1),
    value=st.builds(
        OffsetCommitValue,
        offset=st.integers(-1, 2**63 - 1),
        leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=st.one_of(st.text(max_size=20), st.text("m", min_size=125, max_size=129)),
        commit_timestamp=st.integers(-1, 2**63 - 1),
        expire_timestamp=st.sampled_from((NO_EXPIRY, 11)),
        topic_id=st.one_of(st.none(), st.just(UUID(int=0)), st.uuids()),
    ),
)
def test_a_commit_is_encoded_as_by_its_schema(
    group: str, topic: str, partition: int, value: OffsetCommitValue
) -> None:
    """Byte for byte."""
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    expected = OFFSET_COMMIT.encode(key, value, value.version)
    assert encode_commit(group, topic, partition, value) == expected


@pytest.mark.parametrize("length", [0, 126, 127, 128, 4096])
def test_metadata_of_every_length_is_encoded_as_by_its_schema(length: int) -> None:
    """The length takes a second byte from 127 on."""
    value = OffsetCommitValue(offset=Offset(1), metadata="m" * length)
    assert encode_commit("g", "tt", 5, value) == OFFSET_COMMIT.encode(KEY, value, 4)
