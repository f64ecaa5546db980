"""The record of a committed offset, in Kafka 4.2's versions.

Number 0 is what Kafka wrote in its first years; its value is version 0 of today's.

A group commits one record for each partition, again and again, and a new coordinator reads them
all. So the newest version has an encoder and a decoder of its own, which take a small part of the
time of the schema's.
"""

import struct
from dataclasses import dataclass, field
from functools import lru_cache
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
_BARE_VALUE: Final = struct.Struct(">hqiBqB")
"""A whole value without metadata and topic id, as most are."""
_NO_METADATA: Final = 1
"""The length of an empty string, and one."""


class CommitEncoder:
    """Encodes what one request commits of one topic, as OFFSET_COMMIT does.

    What the records have in common is encoded once.
    """

    def __init__(
        self,
        group: str,
        topic: str,
        topic_id: UUID | None = None,
        *,
        commit_timestamp: int = -1,
        expire_timestamp: int = NO_EXPIRY,
    ) -> None:
        self._group, self._topic, self._topic_id = group, topic, topic_id
        self._commit_timestamp, self._expire_timestamp = commit_timestamp, expire_timestamp
        group_bytes, topic_bytes = group.encode(), topic.encode()
        self._unusual = expire_timestamp != NO_EXPIRY or len(group_bytes) > _LONGEST_GROUP
        if self._unusual:
            return
        head = _NUMBER_AND_LENGTH.pack(OFFSET_COMMIT.number, len(group_bytes))
        self._key = head + group_bytes + _LENGTH.pack(len(topic_bytes)) + topic_bytes
        tags = _NO_TAGS if topic_id is None else _TOPIC_ID_TAG + topic_id.bytes
        self._timestamp_and_tags = _TIMESTAMP.pack(commit_timestamp) + tags

    def encode(
        self, partition: int, offset: Offset, leader_epoch: Epoch = NO_EPOCH, metadata: str = ""
    ) -> CoordinatorRecord:
        """The record of one partition."""
        metadata_bytes = metadata.encode()
        if self._unusual or len(metadata_bytes) > _LONGEST_METADATA:
            return self._by_schema(partition, offset, leader_epoch, metadata)
        return CoordinatorRecord(
            self._key + _PARTITION.pack(partition),
            b"%b%c%b%b"
            % (
                _VERSION_TO_EPOCH.pack(OFFSET_COMMIT.newest_value, offset, leader_epoch),
                len(metadata_bytes) + 1,
                metadata_bytes,
                self._timestamp_and_tags,
            ),
        )

    def _by_schema(
        self, partition: int, offset: Offset, leader_epoch: Epoch, metadata: str
    ) -> CoordinatorRecord:
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=self._commit_timestamp,
            expire_timestamp=self._expire_timestamp,
            topic_id=self._topic_id,
        )
        key = OffsetCommitKey(group=self._group, topic=self._topic, partition=partition)
        return OFFSET_COMMIT.encode(key, value, value.version)


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
    """Read what `CommitEncoder` encodes by itself; None for any other record, also a damaged one.

    OFFSET_COMMIT decodes those, and says what is wrong with them.
    """
    key, value = record
    if value is None:
        return None
    try:
        names = _group_and_topic(key[: -_PARTITION.size])
        read = _read_value(value)
        if names is None or read is None:
            return None
        group, topic = names
        (partition,) = _PARTITION.unpack_from(key, len(key) - _PARTITION.size)
        return ReadCommit(group, topic, partition, *read)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=1024)
def _group_and_topic(head: bytes) -> tuple[str, str] | None:
    """What a key says before its partition. A group commits the same few topics all the time.

    Raises struct.error, UnicodeDecodeError.
    """
    number, size = _NUMBER_AND_LENGTH.unpack_from(head)
    topic_at = _NUMBER_AND_LENGTH.size + size + _LENGTH.size
    (topic_size,) = _LENGTH.unpack_from(head, topic_at - _LENGTH.size)
    usual = number == OFFSET_COMMIT.number and size >= 0 and len(head) == topic_at + topic_size
    if not usual or topic_size < 0:
        return None
    group = head[_NUMBER_AND_LENGTH.size : topic_at - _LENGTH.size]
    return group.decode(), head[topic_at:].decode()


def _read_value(value: bytes) -> tuple[Offset, Epoch, str, int, UUID | None] | None:
    """The last fields of ReadCommit. Raises struct.error, IndexError, UnicodeDecodeError."""
    if len(value) == _BARE_VALUE.size:
        version, offset, leader_epoch, size, timestamp, tags = _BARE_VALUE.unpack(value)
        if version == OFFSET_COMMIT.newest_value and size == _NO_METADATA and not tags:
            return offset, leader_epoch, "", timestamp, None
    version, offset, leader_epoch = _VERSION_TO_EPOCH.unpack_from(value)
    size = value[_VERSION_TO_EPOCH.size] - 1
    metadata_at = _VERSION_TO_EPOCH.size + 1
    metadata_end = metadata_at + size
    if version != OFFSET_COMMIT.newest_value or not 0 <= size <= _LONGEST_METADATA:
        return None
    (timestamp,) = _TIMESTAMP.unpack_from(value, metadata_end)
    tags = value[metadata_end + _TIMESTAMP.size :]
    topic_id = None
    if tags != _NO_TAGS:
        if len(tags) != len(_TOPIC_ID_TAG) + 16 or not tags.startswith(_TOPIC_ID_TAG):
            return None
        topic_id = UUID(bytes=tags[len(_TOPIC_ID_TAG) :])
    return offset, leader_epoch, value[metadata_at:metadata_end].decode(), timestamp, topic_id
