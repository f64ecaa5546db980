"""The record of a committed offset, against bytes made by hand from Kafka's schema."""

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.coordinators.groups.records import (
    NO_EXPIRY,
    OFFSET_COMMIT,
    CommitEncoder,
    OffsetCommitKey,
    OffsetCommitValue,
    ReadCommit,
    read_commit,
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


def encoded(key: OffsetCommitKey, value: OffsetCommitValue) -> CoordinatorRecord:
    """The record of one commit, by the encoder of commits."""
    encoder = CommitEncoder(
        key.group,
        key.topic,
        value.topic_id,
        commit_timestamp=value.commit_timestamp,
        expire_timestamp=value.expire_timestamp,
    )
    return encoder.encode(key.partition, value.offset, value.leader_epoch, value.metadata)


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
    assert encoded(key, value) == expected
    read = read_commit(expected)
    if value.version == 1 or len(value.metadata.encode()) > 126:
        assert read is None
    else:
        assert read is not None
        assert read[:3] == (group, topic, partition)
        assert read[3:] == (
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.topic_id,
        )


@pytest.mark.parametrize("length", [0, 126, 127, 128, 4096])
def test_metadata_of_every_length_is_encoded_as_by_its_schema(length: int) -> None:
    """The length takes a second byte from 127 on."""
    value = OffsetCommitValue(offset=Offset(1), metadata="m" * length)
    assert encoded(KEY, value) == OFFSET_COMMIT.encode(KEY, value, 4)


VALUE = OffsetCommitValue(offset=Offset(1), metadata="m", topic_id=UUID(int=5))
WHOLE = encoded(KEY, VALUE)
BARE = encoded(KEY, OffsetCommitValue(offset=Offset(1)))


@pytest.mark.parametrize("record", [WHOLE, BARE])
@given(data=st.data())
def test_a_damaged_commit_is_read_as_by_its_schema_or_left_to_it(
    record: CoordinatorRecord, data: st.DataObject
) -> None:
    """Cut off anywhere, with a changed byte, or with more behind it."""
    parts = [record.key, record.value or b""]
    which = data.draw(st.integers(0, 1))
    part = bytearray(parts[which])
    match data.draw(st.sampled_from(("cut", "changed", "longer"))):
        case "cut":
            del part[data.draw(st.integers(0, len(part))) :]
        case "changed":
            part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
        case _:
            part += data.draw(st.binary(min_size=1, max_size=20))
    parts[which] = bytes(part)
    damaged = CoordinatorRecord(*parts)
    read = read_commit(damaged)
    if read is not None:
        decoded = TYPES.decode(damaged)
        assert decoded is not None
        assert read == ReadCommit(
            decoded.key.group,
            decoded.key.topic,
            decoded.key.partition,
            decoded.value.offset,
            decoded.value.leader_epoch,
            decoded.value.metadata,
            decoded.value.commit_timestamp,
            decoded.value.topic_id,
        )
