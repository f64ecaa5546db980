"""The records of consumer groups in `__consumer_offsets`: types 3 to 8 and 16 of Kafka 4.2.

Types 3 (group epoch), 6 (epoch of the target assignment) and 4 have one record for each group;
types 5 (member), 7 (target assignment) and 8 (current assignment) one for each member; type 16
one for each regular expression. Type 4 is of Kafka 3.7 to 4.0: it is read, and removed, but not
written (KIP-1101 has a hash in type 3 instead).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16

from nodes.coordinators.records import RecordType
from nodes.record_schemas import Schema, wire

NEVER_FLEXIBLE: Final = 2**15 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """A group. Kafka has one class for each type; their fields are the same."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    group_id: str = field(metadata=wire("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKey:
    """A member of a group."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    group_id: str = field(metadata=wire("string"))
    member_id: str = field(metadata=wire("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegularExpressionKey:
    """A regular expression that members of a group subscribe to."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    group_id: str = field(metadata=wire("string"))
    regular_expression: str = field(metadata=wire("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    """The group epoch, and the hash of the subscribed topics that belongs to it."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    epoch: int = field(metadata=wire("int32"))
    metadata_hash: int = field(metadata=wire("int64", tag=0), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRacks:
    """The racks of one partition."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    partition: int = field(metadata=wire("int32"))
    racks: tuple[str, ...] = field(metadata=wire("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedTopic:
    """A subscribed topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    topic_id: UUID | None = field(metadata=wire("uuid"))
    topic_name: str = field(metadata=wire("string"))
    num_partitions: int = field(metadata=wire("int32"))
    partition_metadata: tuple[PartitionRacks, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    """The subscribed topics, as Kafka before 4.1 remembered them."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    topics: tuple[SubscribedTopic, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    """A protocol that a member of the classic protocol supports, and its metadata."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=wire("string"))
    metadata: bytes = field(metadata=wire("bytes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """What is known only of members that speak the classic protocol.

    Kafka's schema lets it be null. kio does not write the mark of a struct that may be null
    (KIP-893) in a tagged field, so the mark is a field here, and NOT_CLASSIC stands for null. See
    MemberMetadataSchema.
    """

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    not_null: int = field(metadata=wire("int8"), default=1)
    session_timeout_ms: int = field(metadata=wire("int32"))
    supported_protocols: tuple[ClassicProtocol, ...] = field(metadata={})


NOT_CLASSIC: Final = ClassicMemberMetadata(
    not_null=-1, session_timeout_ms=0, supported_protocols=()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    """What a member said of itself, and what it subscribes to."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    instance_id: str | None = field(metadata=wire("string"), default=None)
    rack_id: str | None = field(metadata=wire("string"), default=None)
    client_id: str = field(metadata=wire("string"), default="")
    client_host: str = field(metadata=wire("string"), default="")
    subscribed_topic_names: tuple[str, ...] = field(metadata=wire("string"), default=())
    subscribed_topic_regex: str | None = field(metadata=wire("string"), default=None)
    rebalance_timeout_ms: int = field(metadata=wire("int32"), default=-1)
    server_assignor: str | None = field(metadata=wire("string"), default=None)
    classic_member_metadata: ClassicMemberMetadata = field(metadata={"tag": 0}, default=NOT_CLASSIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch that the target assignment was computed for."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    assignment_epoch: int = field(metadata=wire("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    topic_id: UUID | None = field(metadata=wire("uuid"))
    partitions: tuple[int, ...] = field(metadata=wire("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    """The partitions that a member shall have."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    topic_partitions: tuple[TopicPartitions, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """The partitions that a member has, and those that it must revoke first."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    member_epoch: int = field(metadata=wire("int32"))
    previous_member_epoch: int = field(metadata=wire("int32"))
    state: int = field(metadata=wire("int8"))
    assigned_partitions: tuple[TopicPartitions, ...] = field(metadata={})
    partitions_pending_revocation: tuple[TopicPartitions, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    """The topics that a regular expression matched; `version` is an offset of the metadata log."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    topics: tuple[str, ...] = field(metadata=wire("string"))
    version: int = field(metadata=wire("int64"))
    timestamp: int = field(metadata=wire("int64"))
    """Wall-clock milliseconds."""


class MemberMetadataSchema(Schema[ConsumerGroupMemberMetadataValue]):
    """The value of MEMBER_METADATA, as Kafka 4.2's generated class reads and writes it.

    That class takes a record without ClassicMemberMetadata for one with a member of the classic
    protocol that has no protocols, though its schema says that null is the default. So it writes
    null as a tagged field, whose only byte is 0.
    """

    _NO_TAGS: ClassVar[bytes] = b"\0"
    _NULL: ClassVar[bytes] = b"\1\0\1\0"
    """One tagged field: tag 0, one byte, which is 0."""

    def writer(self, version: int) -> Callable[[BytesIO, ConsumerGroupMemberMetadataValue], None]:
        """See Schema."""
        write = super().writer(version)

        def write_with_null(buffer: BytesIO, record: ConsumerGroupMemberMetadataValue) -> None:
            body = BytesIO()
            write(body, record)
            data = body.getvalue()
            if record.classic_member_metadata == NOT_CLASSIC:
                data = data.removesuffix(self._NO_TAGS) + self._NULL
            buffer.write(data)

        return write_with_null

    def reader(
        self, version: int
    ) -> Callable[[bytes, int], tuple[ConsumerGroupMemberMetadataValue, int]]:
        """See Schema."""
        read = super().reader(version)

        def read_with_null(
            data: bytes, position: int
        ) -> tuple[ConsumerGroupMemberMetadataValue, int]:
            try:
                return read(data, position)
            except Exception:  # kio's readers raise unrelated types
                if not data.endswith(self._NULL):
                    raise
            return read(data.removesuffix(self._NULL) + self._NO_TAGS, position)

        return read_with_null


_GROUP: Final = Schema(GroupKey, NEVER_FLEXIBLE)
_MEMBER: Final = Schema(MemberKey, NEVER_FLEXIBLE)

METADATA: Final = RecordType(3, _GROUP, Schema(ConsumerGroupMetadataValue))
PARTITION_METADATA: Final = RecordType(4, _GROUP, Schema(ConsumerGroupPartitionMetadataValue))
MEMBER_METADATA: Final = RecordType(
    5, _MEMBER, MemberMetadataSchema(ConsumerGroupMemberMetadataValue)
)
TARGET_ASSIGNMENT_METADATA: Final = RecordType(
    6, _GROUP, Schema(ConsumerGroupTargetAssignmentMetadataValue)
)
TARGET_ASSIGNMENT_MEMBER: Final = RecordType(
    7, _MEMBER, Schema(ConsumerGroupTargetAssignmentMemberValue)
)
CURRENT_MEMBER_ASSIGNMENT: Final = RecordType(
    8, _MEMBER, Schema(ConsumerGroupCurrentMemberAssignmentValue)
)
REGULAR_EXPRESSION: Final = RecordType(
    16,
    Schema(RegularExpressionKey, NEVER_FLEXIBLE),
    Schema(ConsumerGroupRegularExpressionValue),
)
RECORD_TYPES: Final = (
    METADATA,
    PARTITION_METADATA,
    MEMBER_METADATA,
    TARGET_ASSIGNMENT_METADATA,
    TARGET_ASSIGNMENT_MEMBER,
    CURRENT_MEMBER_ASSIGNMENT,
    REGULAR_EXPRESSION,
)
