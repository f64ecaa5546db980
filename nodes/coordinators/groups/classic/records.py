"""The record of a classic group: its last generation, and each member's part in it.

Kafka names it GroupMetadata. Kafka 4.2 writes version 3 of the value, and reads versions 0 to 4.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.static.constants import EntityType
from kio.static.primitive import i16

from nodes.coordinators.records import CoordinatorRecord, RecordType
from nodes.record_schemas import NEWEST, Schema, wire

VALUE_VERSION: Final = 3
"""The version that is written (GroupCoordinatorRecordHelpers of Kafka 4.2)."""

NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey:
    """The group's id."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = False
    group: str = field(metadata=wire("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """A member of a generation. Time-outs are milliseconds; -1 is none (version 0)."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    member_id: str = field(metadata=wire("string"))
    group_instance_id: str | None = field(metadata=wire("string", since=3), default=None)
    client_id: str = field(metadata=wire("string"))
    client_host: str = field(metadata=wire("string"))
    rebalance_timeout: int = field(metadata=wire("int32", since=1), default=-1)
    session_timeout: int = field(metadata=wire("int32"))
    subscription: bytes = field(metadata=wire("bytes"))
    assignment: bytes = field(metadata=wire("bytes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """A generation. Without members the group is empty, since `current_state_timestamp`.

    `protocol_type` is empty for a group that nobody has joined. Wall-clock milliseconds.
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    protocol_type: str = field(metadata=wire("string"))
    generation: int = field(metadata=wire("int32"))
    protocol: str | None = field(metadata=wire("string"))
    leader: str | None = field(metadata=wire("string"))
    current_state_timestamp: int = field(metadata=wire("int64", since=2), default=NO_TIMESTAMP)
    members: tuple[MemberMetadata, ...]


GROUP_METADATA: Final = RecordType(
    number=2,
    key=Schema(GroupMetadataKey, flexible_since=NEWEST),
    value=Schema(GroupMetadataValue, flexible_since=4),
    newest_value=4,
)


def group_record(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    """The record that remembers `value` as the group's last generation."""
    return GROUP_METADATA.encode(GroupMetadataKey(group=group_id), value, VALUE_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that removes the group."""
    return GROUP_METADATA.tombstone(GroupMetadataKey(group=group_id))
