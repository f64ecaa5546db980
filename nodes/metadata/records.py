"""The records of the metadata log, byte for byte as Kafka writes them.

They are declared as `nodes.record_schemas` says. A type is written in the version of its class, and
read in it and all earlier ones.

A record is a frame and a body. The frame has three unsigned varints: the frame version (1), the
type and the version. The body is in flexible encoding. Anything else raises MetadataError.
"""

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, get_args
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16

from nodes.ids import NO_EPOCH, NO_NODE, BrokerEpoch, Epoch, NodeId
from nodes.metadata.errors import MetadataError
from nodes.metadata.unused import Removal, UnusedRecord
from nodes.metadata.unused_records import ZkMigrationStateRecord
from nodes.record_schemas import Schema, wire

FRAME_VERSION: Final = 1

NO_LEADER_CHANGE: Final = NodeId(-2)
"""The leader of a PartitionChangeRecord that leaves leader and leader epoch as they are."""

RECOVERY_STATE_UNCHANGED: Final = -1
RECOVERED: Final = 0
RECOVERING: Final = 1

FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32

METADATA_VERSION_FEATURE: Final = "metadata.version"
ELIGIBLE_LEADER_REPLICAS_FEATURE: Final = "eligible.leader.replicas.version"
TRANSACTION_VERSION_FEATURE: Final = "transaction.version"
GROUP_VERSION_FEATURE: Final = "group.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """The address of one listener of a broker."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=wire("string"))
    host: str = field(metadata=wire("string"))
    port: int = field(metadata=wire("uint16"))
    security_protocol: int = field(metadata=wire("int16"), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature:
    """A range of feature levels that a broker supports."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=wire("string"))
    min_supported_version: int = field(metadata=wire("int16"))
    max_supported_version: int = field(metadata=wire("int16"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker incarnation joins with a new broker epoch, or changes its registration."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(0)
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    broker_id: NodeId = field(metadata=wire("int32"))
    is_migrating_zk_broker: bool = field(metadata=wire("bool", since=2), default=False)
    incarnation_id: UUID | None = field(metadata=wire("uuid"))
    broker_epoch: BrokerEpoch = field(metadata=wire("int64"))
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = field(metadata=wire("string"), default=None)
    fenced: bool = field(metadata=wire("bool"), default=True)
    in_controlled_shutdown: bool = field(metadata=wire("bool", since=1), default=False)
    log_dirs: tuple[UUID | None, ...] = field(metadata=wire("uuid", tag=0), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    """A broker is no longer a member of the cluster."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(1)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    broker_id: NodeId = field(metadata=wire("int32"))
    broker_epoch: BrokerEpoch = field(metadata=wire("int64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic is created; its partitions follow."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(2)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=wire("string"))
    topic_id: UUID = field(metadata=wire("uuid"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """The whole state of one partition; version 2 has eligible leader replicas (KIP-966)."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(3)
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    partition_id: int = field(metadata=wire("int32"), default=-1)
    topic_id: UUID = field(metadata=wire("uuid"))
    replicas: tuple[NodeId, ...] = field(metadata=wire("int32"))
    isr: tuple[NodeId, ...] = field(metadata=wire("int32"))
    removing_replicas: tuple[NodeId, ...] = field(metadata=wire("int32"), default=())
    adding_replicas: tuple[NodeId, ...] = field(metadata=wire("int32"), default=())
    leader: NodeId = field(metadata=wire("int32"), default=NO_NODE)
    leader_recovery_state: int = field(metadata=wire("int8", tag=0), default=RECOVERED)
    leader_epoch: Epoch = field(metadata=wire("int32"), default=NO_EPOCH)
    partition_epoch: int = field(metadata=wire("int32"), default=-1)
    directories: tuple[UUID | None, ...] = field(metadata=wire("uuid", since=1), default=())
    """The log directory of each replica; null (the zero id) while unassigned."""
    eligible_leader_replicas: tuple[NodeId, ...] | None = field(
        metadata=wire("int32", tag=1), default=None
    )
    last_known_elr: tuple[NodeId, ...] | None = field(metadata=wire("int32", tag=2), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """One configuration value of one resource; a null value deletes it."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(4)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    resource_type: int = field(metadata=wire("int8"))
    resource_name: str = field(metadata=wire("string"))
    name: str = field(metadata=wire("string"))
    value: str | None = field(metadata=wire("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """The changed fields of one partition; null, -1 or -2 (the leader) mean "unchanged".

    Every such record raises the partition epoch by one. It also raises the leader epoch if it names
    a leader, even the same one.
    """

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(5)
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    partition_id: int = field(metadata=wire("int32"), default=-1)
    topic_id: UUID = field(metadata=wire("uuid"))
    isr: tuple[NodeId, ...] | None = field(metadata=wire("int32", tag=0), default=None)
    leader: NodeId = field(metadata=wire("int32", tag=1), default=NO_LEADER_CHANGE)
    replicas: tuple[NodeId, ...] | None = field(metadata=wire("int32", tag=2), default=None)
    removing_replicas: tuple[NodeId, ...] | None = field(
        metadata=wire("int32", tag=3), default=None
    )
    adding_replicas: tuple[NodeId, ...] | None = field(metadata=wire("int32", tag=4), default=None)
    leader_recovery_state: int = field(
        metadata=wire("int8", tag=5), default=RECOVERY_STATE_UNCHANGED
    )
    eligible_leader_replicas: tuple[NodeId, ...] | None = field(
        metadata=wire("int32", tag=6), default=None
    )
    last_known_elr: tuple[NodeId, ...] | None = field(metadata=wire("int32", tag=7), default=None)
    directories: tuple[UUID | None, ...] | None = field(metadata=wire("uuid", tag=8), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic is deleted with all its partitions and its configuration."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(9)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    topic_id: UUID = field(metadata=wire("uuid"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRecord:
    """A broker is fenced; since Kafka 3.1 a BrokerRegistrationChangeRecord. Only read here."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(7)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    id: NodeId = field(metadata=wire("int32"))
    epoch: BrokerEpoch = field(metadata=wire("int64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerRecord:
    """A broker is unfenced; since Kafka 3.1 a BrokerRegistrationChangeRecord. Only read here."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(8)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    id: NodeId = field(metadata=wire("int32"))
    epoch: BrokerEpoch = field(metadata=wire("int64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """The finalized level of one feature of the cluster."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(12)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=wire("string"))
    feature_level: int = field(metadata=wire("int16"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """Producer ids below `next_producer_id` have been allocated in blocks."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(15)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    broker_id: NodeId = field(metadata=wire("int32"))
    broker_epoch: BrokerEpoch = field(metadata=wire("int64"))
    next_producer_id: int = field(metadata=wire("int64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """A registered broker is fenced (1), unfenced (-1), or has begun a controlled shutdown (1)."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(17)
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    broker_id: NodeId = field(metadata=wire("int32"))
    broker_epoch: BrokerEpoch = field(metadata=wire("int64"))
    fenced: int = field(metadata=wire("int8", tag=0), default=0)
    in_controlled_shutdown: int = field(metadata=wire("int8", tag=1), default=0)
    log_dirs: tuple[UUID | None, ...] = field(metadata=wire("uuid", tag=2), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord:
    """A record without content."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(20)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord:
    """Later records take effect only with the EndTransactionRecord (KIP-868). Only read here."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(23)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str | None = field(metadata=wire("string", tag=0), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord:
    """The records since the BeginTransactionRecord take effect. Only read here."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(24)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord:
    """The records since the BeginTransactionRecord are discarded."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(25)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    reason: str | None = field(metadata=wire("string", tag=0), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterControllerRecord:
    """A controller's incarnation and addresses (KIP-919). Only read here."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(27)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    controller_id: NodeId = field(metadata=wire("int32"))
    incarnation_id: UUID | None = field(metadata=wire("uuid"))
    zk_migration_ready: bool = field(metadata=wire("bool"), default=False)
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord:
    """No replica of the topic is eligible any more (KIP-966); no name: of all. Only read here."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(28)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    topic_name: str = field(metadata=wire("string"))


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | NoOpRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RegisterControllerRecord
    | ClearElrRecord
    | ZkMigrationStateRecord
    | UnusedRecord
    | Removal
)

RECORD_TYPES: Final[tuple[type[MetadataRecord], ...]] = get_args(MetadataRecord)


def _unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _frame_of(cls: type[MetadataRecord]) -> bytes:
    numbers = (FRAME_VERSION, int(cls.__api_key__), int(cls.__version__))
    return b"".join(map(_unsigned_varint, numbers))


_BY_API_KEY: Final = {int(cls.__api_key__): cls for cls in RECORD_TYPES}
_FRAMES: Final = {cls: _frame_of(cls) for cls in RECORD_TYPES}
_WRITERS: Final = {cls: Schema(cls).writer(cls.__version__) for cls in RECORD_TYPES}


_READERS: Final = {
    (cls, version): Schema(cls).reader(version)
    for cls in RECORD_TYPES
    for version in range(cls.__version__ + 1)
}


def encode(record: MetadataRecord) -> bytes:
    """The bytes of the record: frame and body."""
    cls = type(record)
    buffer = io.BytesIO()
    buffer.write(_FRAMES[cls])
    _WRITERS[cls](buffer, record)
    return buffer.getvalue()


def encode_all(records: Sequence[MetadataRecord]) -> list[bytes]:
    """Encode each record as `encode` does.

    When a broker joins or leaves, most changes differ only in the partition; the equal part is
    encoded once. That takes a tenth of the time, during which the controller can do nothing else.
    """
    encoded: dict[tuple[object, ...], tuple[bytes, bytes]] = {}
    values = []
    for record in records:
        if not isinstance(record, PartitionChangeRecord):
            values.append(encode(record))
            continue
        what = _all_but_partition(record)
        found = encoded.get(what)
        if found is None:
            whole = encode(replace(record, partition_id=0, topic_id=_ANY_TOPIC))
            found = encoded[what] = (
                whole[:_PARTITION_AT],
                whole[_PARTITION_AT + _PARTITION.size :],
            )
        head, tail = found
        values.append(head + _PARTITION.pack(record.partition_id, record.topic_id.bytes) + tail)
    return values


_ANY_TOPIC: Final = UUID(int=1)
_PARTITION: Final = struct.Struct(">i16s")
"""The first fields of a PartitionChangeRecord: partition and topic id."""
_PARTITION_AT: Final = len(_FRAMES[PartitionChangeRecord])


def _all_but_partition(record: PartitionChangeRecord) -> tuple[object, ...]:
    return (
        record.isr,
        record.leader,
        record.replicas,
        record.removing_replicas,
        record.adding_replicas,
        record.leader_recovery_state,
        record.eligible_leader_replicas,
        record.last_known_elr,
        record.directories,
    )


def _read_unsigned_varint(buffer: bytes, position: int, what: str) -> tuple[int, int]:
    value = 0
    for index in range(5):
        if position >= len(buffer):
            break
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position
    raise MetadataError(f"metadata record of {len(buffer)} bytes: its {what} is not a varint")


def decode(value: bytes) -> MetadataRecord:
    """Decode the record in `value`.

    Raises MetadataError for an unknown frame version, type or version, for a body that does not fit
    the type's schema, and for bytes after its end.
    """
    frame_version, position = _read_unsigned_varint(value, 0, "frame version")
    if frame_version != FRAME_VERSION:
        raise MetadataError(f"metadata record with frame version {frame_version}, not 1")
    api_key, position = _read_unsigned_varint(value, position, "type")
    version, position = _read_unsigned_varint(value, position, "version")
    cls = _BY_API_KEY.get(api_key)
    if cls is None:
        raise MetadataError(f"metadata record of unknown type {api_key}")
    if version > cls.__version__:
        raise MetadataError(
            f"{cls.__name__} of version {version}; this build reads up to {cls.__version__}"
        )
    try:
        record, size = _READERS[cls, version](value, position)
    except Exception as error:
        # kio's readers raise unrelated types: its own errors, ValueError, and KeyError for an
        # unknown tag.
        raise MetadataError(f"{cls.__name__} with a damaged body: {error}") from error
    if position + size != len(value):
        excess = len(value) - position - size
        raise MetadataError(f"{cls.__name__} with {excess} bytes after its end")
    return record
