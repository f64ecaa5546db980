"""The record of a committed offset, in Kafka 4.2's versions.

Number 0 is what Kafka wrote in its first years; its value is version 0 of today's.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16

from nodes.coordinators.records import RecordType
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
