"""The record of a committed offset, in Kafka 4.2's versions.

Number 0 is what Kafka wrote in its first years; its value is version 0 of today's.

A group commits one record for each partition, again and again, and a new coordinator reads them
all. So the newest version has an encoder and a decoder of its own, which take a tenth and a third
of the time of the schema's.
"""

import struct
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16

from nodes.coordinators.records import CoordinatorRecord, RecordType
from nodes.ids import NO_EPOCH, Epoch, Offset
from nodes.record_schemas import NEWEST, Schema, wire

NO_EXPIRY: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey:
    """Which offset."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    group: str = field(metadata=wire("string"))
    topic: str = field(metadata=wire("string"))
    partition: int = field(metadata=wire("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    """A committed offset. Wall-clock milliseconds."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    offset: Offset = field(metadata=wire("int64"))
    leader_epoch: Epoch = field(metadata=wire("int32", since=3), default=NO_EPOCH)
    metadata: str = field(metadata=wire("string"), default="")
    commit_timestamp: int = field(metadata=wire("int64"), default=-1)
    expire_timestamp: int = field(metadata=wire("int64", since=1, until=1), default=NO_EXPIRY)
    topic_id: UUID | None = field(metadata=wire("uuid", tag=0), default=None)

    @property
    def version(self) -> int:
        """The version that can hold it: only version 1 has a time of expiry."""
        return 4 if self.expire_timestamp == NO_EXPIRY else 1


OFFSET_COMMIT: Final = RecordType(
    1,
    Schema(OffsetCommitKey, flexible_since=NEWEST),
    Schema(OffsetCommitValue, flexible_since=4),
    newest_value=4,
    also_numbers=(0,),
)

_LONGEST_GROUP: Final = 2**15 - 1
_LONGEST_METADATA: Final = 126
"""Bytes; the schema's encoder takes longer ones."""
_NUMBER_AND_LENGTH: Final = struct.Struct(">hh")
_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_VERSION_TO_EPOCH: Final = struct.Struct(">hqi")
_TIMESTAMP: Final = struct.Struct(">q")
_NO_TAGS: Final = b"\x00"
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
"""One tagged field: number 0, of 16 bytes."""


def encode_commit(
    group: str, topic: str, partition: int, value: OffsetCommitValue
) -> CoordinatorRecord:
    """The record of a committed offset, as OFFSET_COMMIT encodes it."""
    group_bytes, topic_bytes = group.encode(), topic.encode()
    metadata = value.metadata.encode()
    if (
        value.version != OFFSET_COMMIT.newest_value
        or len(group_bytes) > _LONGEST_GROUP
        or len(metadata) > _LONGEST_METADATA
    ):
        key = OffsetCommitKey(group=group, topic=topic, partition=partition)
        return OFFSET_COMMIT.encode(key, value, value.version)
    return CoordinatorRecord(
        b"".join(
            (
                _NUMBER_AND_LENGTH.pack(OFFSET_COMMIT.number, len(group_bytes)),
                group_bytes,
                _LENGTH.pack(len(topic_bytes)),
                topic_bytes,
                _PARTITION.pack(partition),
            )
        ),
        b"".join(
            (
                _VERSION_TO_EPOCH.pack(
                    OFFSET_COMMIT.newest_value, value.offset, value.leader_epoch
                ),
                bytes((len(metadata) + 1,)),
                metadata,
                _TIMESTAMP.pack(value.commit_timestamp),
                _NO_TAGS if value.topic_id is None else _TOPIC_ID_TAG + value.topic_id.bytes,
            )
        ),
    )


class ReadCommit(NamedTuple):
    """What the record of a committed offset says."""

    group: str
    topic: str
    partition: int
    offset: Offset
    leader_epoch: Epoch
    metadata: str
    commit_timestamp: int
    topic_id: UUID | None


def read_commit(record: CoordinatorRecord) -> ReadCommit | None:
    """Read what `encode_commit` encodes by itself; None for any other record, also a damaged one.

    OFFSET_COMMIT decodes those, and says what is wrong with them.
    """
    key, value = record
    if value is None:
        return None
    try:
        number, size = _NUMBER_AND_LENGTH.unpack_from(key)
        group_end = _NUMBER_AND_LENGTH.size + size
        (topic_size,) = _LENGTH.unpack_from(key, group_end)
        topic_begin = group_end + _LENGTH.size
        topic_end = topic_begin + topic_size
        version, offset, leader_epoch = _VERSION_TO_EPOCH.unpack_from(value)
        metadata_size = value[_VERSION_TO_EPOCH.size] - 1
        metadata_begin = _VERSION_TO_EPOCH.size + 1
        metadata_end = metadata_begin + metadata_size
        (timestamp,) = _TIMESTAMP.unpack_from(value, metadata_end)
        tags = value[metadata_end + _TIMESTAMP.size :]
        topic_id = None
        if tags != _NO_TAGS:
            if len(tags) != len(_TOPIC_ID_TAG) + 16 or not tags.startswith(_TOPIC_ID_TAG):
                return None
            topic_id = UUID(bytes=tags[len(_TOPIC_ID_TAG) :])
        usual = (
            (number, version) == (OFFSET_COMMIT.number, OFFSET_COMMIT.newest_value)
            and min(size, topic_size, metadata_size) >= 0
            and metadata_size <= _LONGEST_METADATA
            and len(key) == topic_end + _PARTITION.size
        )
        if not usual:
            return None
        return ReadCommit(
            key[_NUMBER_AND_LENGTH.size : group_end].decode(),
            key[topic_begin:topic_end].decode(),
            _PARTITION.unpack_from(key, topic_end)[0],
            Offset(offset),
            Epoch(leader_epoch),
            value[metadata_begin:metadata_end].decode(),
            timestamp,
            topic_id,
        )
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
