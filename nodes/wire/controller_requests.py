"""What a ZooKeeper-mode controller and its brokers send each other, as Kafka 3 does.

LeaderAndIsr v6, StopReplica v3, UpdateMetadata v7 and ControlledShutdown v3. kio has only the
messages of Kafka 4, which removed these, so they are declared here in kio's form (frozen
dataclasses whose fields name their wire type). Field names, order and types are those of Kafka's
schemas.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16

LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6
CONTROLLED_SHUTDOWN: Final = 7

LEADER_AND_ISR_VERSION: Final = 6
STOP_REPLICA_VERSION: Final = 3
UPDATE_METADATA_VERSION: Final = 7
CONTROLLED_SHUTDOWN_VERSION: Final = 3

INCREMENTAL: Final = 1
FULL: Final = 2
"""The types of a LeaderAndIsr request. After a full one the broker knows all of its partitions."""

DURING_DELETION: Final = -2
"""The leader of every partition of a topic that is being deleted, in UpdateMetadata."""


def _wire(kafka_type: str) -> dict[str, object]:
    return {"kafka_type": kafka_type}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartition:
    """The state of one partition."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(LEADER_AND_ISR_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(LEADER_AND_ISR)
    __header_schema__: ClassVar = RequestHeader
    partition_index: int = field(metadata=_wire("int32"))
    controller_epoch: int = field(metadata=_wire("int32"))
    leader: int = field(metadata=_wire("int32"))
    leader_epoch: int = field(metadata=_wire("int32"))
    isr: tuple[int, ...] = field(metadata=_wire("int32"))
    partition_epoch: int = field(metadata=_wire("int32"))
    replicas: tuple[int, ...] = field(metadata=_wire("int32"))
    adding_replicas: tuple[int, ...] = field(metadata=_wire("int32"), default=())
    removing_replicas: tuple[int, ...] = field(metadata=_wire("int32"), default=())
    is_new: bool = field(metadata=_wire("bool"), default=False)
    leader_recovery_state: int = field(metadata=_wire("int8"), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopic:
    """The partitions of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(LEADER_AND_ISR_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(LEADER_AND_ISR)
    __header_schema__: ClassVar = RequestHeader
    topic_name: str = field(metadata=_wire("string"))
    topic_id: UUID | None = field(metadata=_wire("uuid"))
    partition_states: tuple[LeaderAndIsrPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLeader:
    """The address of a leader."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(LEADER_AND_ISR_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(LEADER_AND_ISR)
    __header_schema__: ClassVar = RequestHeader
    broker_id: int = field(metadata=_wire("int32"))
    host_name: str = field(metadata=_wire("string"))
    port: int = field(metadata=_wire("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrRequest:
    """The roles of a broker's replicas."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(LEADER_AND_ISR_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(LEADER_AND_ISR)
    __header_schema__: ClassVar = RequestHeader
    controller_id: int = field(metadata=_wire("int32"))
    controller_epoch: int = field(metadata=_wire("int32"))
    broker_epoch: int = field(metadata=_wire("int64"), default=-1)
    type_: int = field(metadata=_wire("int8"), default=INCREMENTAL)
    topic_states: tuple[LeaderAndIsrTopic, ...]
    live_leaders: tuple[LiveLeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrError:
    """The result for one partition."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(LEADER_AND_ISR_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(LEADER_AND_ISR)
    __header_schema__: ClassVar = ResponseHeader
    partition_index: int = field(metadata=_wire("int32"))
    error_code: ErrorCode = field(metadata=_wire("error_code"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopicError:
    """The results for one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(LEADER_AND_ISR_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(LEADER_AND_ISR)
    __header_schema__: ClassVar = ResponseHeader
    topic_id: UUID | None = field(metadata=_wire("uuid"))
    partition_errors: tuple[LeaderAndIsrError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrResponse:
    """The results, or an error for the whole request."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(LEADER_AND_ISR_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(LEADER_AND_ISR)
    __header_schema__: ClassVar = ResponseHeader
    error_code: ErrorCode = field(metadata=_wire("error_code"))
    topics: tuple[LeaderAndIsrTopicError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaPartition:
    """A replica to stop, and whether its log is deleted."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(STOP_REPLICA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(STOP_REPLICA)
    __header_schema__: ClassVar = RequestHeader
    partition_index: int = field(metadata=_wire("int32"))
    leader_epoch: int = field(metadata=_wire("int32"), default=-1)
    delete_partition: bool = field(metadata=_wire("bool"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaTopic:
    """The replicas of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(STOP_REPLICA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(STOP_REPLICA)
    __header_schema__: ClassVar = RequestHeader
    topic_name: str = field(metadata=_wire("string"))
    partition_states: tuple[StopReplicaPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaRequest:
    """Replicas that a broker stops."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(STOP_REPLICA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(STOP_REPLICA)
    __header_schema__: ClassVar = RequestHeader
    controller_id: int = field(metadata=_wire("int32"))
    controller_epoch: int = field(metadata=_wire("int32"))
    broker_epoch: int = field(metadata=_wire("int64"), default=-1)
    topic_states: tuple[StopReplicaTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaError:
    """The result for one partition."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(STOP_REPLICA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(STOP_REPLICA)
    __header_schema__: ClassVar = ResponseHeader
    topic_name: str = field(metadata=_wire("string"))
    partition_index: int = field(metadata=_wire("int32"))
    error_code: ErrorCode = field(metadata=_wire("error_code"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaResponse:
    """The results, or an error for the whole request."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(STOP_REPLICA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(STOP_REPLICA)
    __header_schema__: ClassVar = ResponseHeader
    error_code: ErrorCode = field(metadata=_wire("error_code"))
    partition_errors: tuple[StopReplicaError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataPartition:
    """The state of one partition, for clients' questions."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(UPDATE_METADATA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(UPDATE_METADATA)
    __header_schema__: ClassVar = RequestHeader
    partition_index: int = field(metadata=_wire("int32"))
    controller_epoch: int = field(metadata=_wire("int32"))
    leader: int = field(metadata=_wire("int32"))
    leader_epoch: int = field(metadata=_wire("int32"))
    isr: tuple[int, ...] = field(metadata=_wire("int32"))
    zk_version: int = field(metadata=_wire("int32"))
    replicas: tuple[int, ...] = field(metadata=_wire("int32"))
    offline_replicas: tuple[int, ...] = field(metadata=_wire("int32"), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataTopic:
    """The partitions of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(UPDATE_METADATA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(UPDATE_METADATA)
    __header_schema__: ClassVar = RequestHeader
    topic_name: str = field(metadata=_wire("string"))
    topic_id: UUID | None = field(metadata=_wire("uuid"))
    partition_states: tuple[UpdateMetadataPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataEndpoint:
    """The address of one listener of a broker."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(UPDATE_METADATA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(UPDATE_METADATA)
    __header_schema__: ClassVar = RequestHeader
    port: int = field(metadata=_wire("int32"))
    host: str = field(metadata=_wire("string"))
    listener: str = field(metadata=_wire("string"))
    security_protocol: int = field(metadata=_wire("int16"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataBroker:
    """A live broker."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(UPDATE_METADATA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(UPDATE_METADATA)
    __header_schema__: ClassVar = RequestHeader
    id_: int = field(metadata=_wire("int32"))
    endpoints: tuple[UpdateMetadataEndpoint, ...]
    rack: str | None = field(metadata=_wire("string"), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataRequest:
    """The live brokers, all of them, and the partitions that changed."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(UPDATE_METADATA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(UPDATE_METADATA)
    __header_schema__: ClassVar = RequestHeader
    controller_id: int = field(metadata=_wire("int32"))
    controller_epoch: int = field(metadata=_wire("int32"))
    broker_epoch: int = field(metadata=_wire("int64"), default=-1)
    topic_states: tuple[UpdateMetadataTopic, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataResponse:
    """Whether the broker took the request."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(UPDATE_METADATA_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(UPDATE_METADATA)
    __header_schema__: ClassVar = ResponseHeader
    error_code: ErrorCode = field(metadata=_wire("error_code"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownRequest:
    """A broker asks the controller to move its leaderships away."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(CONTROLLED_SHUTDOWN_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(CONTROLLED_SHUTDOWN)
    __header_schema__: ClassVar = RequestHeader
    broker_id: int = field(metadata=_wire("int32"))
    broker_epoch: int = field(metadata=_wire("int64"), default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingPartition:
    """A partition that the broker still leads."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(CONTROLLED_SHUTDOWN_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(CONTROLLED_SHUTDOWN)
    __header_schema__: ClassVar = ResponseHeader
    topic_name: str = field(metadata=_wire("string"))
    partition_index: int = field(metadata=_wire("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownResponse:
    """The partitions that still have no other leader."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(CONTROLLED_SHUTDOWN_VERSION)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(CONTROLLED_SHUTDOWN)
    __header_schema__: ClassVar = ResponseHeader
    error_code: ErrorCode = field(metadata=_wire("error_code"))
    remaining_partitions: tuple[RemainingPartition, ...] = ()


REQUESTS: Final[dict[tuple[int, int], type]] = {
    (LEADER_AND_ISR, LEADER_AND_ISR_VERSION): LeaderAndIsrRequest,
    (STOP_REPLICA, STOP_REPLICA_VERSION): StopReplicaRequest,
    (UPDATE_METADATA, UPDATE_METADATA_VERSION): UpdateMetadataRequest,
    (CONTROLLED_SHUTDOWN, CONTROLLED_SHUTDOWN_VERSION): ControlledShutdownRequest,
}
RESPONSES: Final[dict[tuple[int, int], type]] = {
    (LEADER_AND_ISR, LEADER_AND_ISR_VERSION): LeaderAndIsrResponse,
    (STOP_REPLICA, STOP_REPLICA_VERSION): StopReplicaResponse,
    (UPDATE_METADATA, UPDATE_METADATA_VERSION): UpdateMetadataResponse,
    (CONTROLLED_SHUTDOWN, CONTROLLED_SHUTDOWN_VERSION): ControlledShutdownResponse,
}
