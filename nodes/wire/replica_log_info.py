"""GetReplicaLogInfo: a controller asks a broker where its logs end (KIP-966).

kio has no such message yet, so it is declared here in kio's form (frozen dataclasses whose fields
name their wire type). Field names, order and types are those of Kafka's schema of version 0.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16

GET_REPLICA_LOG_INFO: Final = 93
MAX_PARTITIONS: Final = 1000
"""The most partitions of a request; a broker answers for the first so many and sets `truncated`."""


def _wire(kafka_type: str) -> dict[str, object]:
    return {"kafka_type": kafka_type}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(GET_REPLICA_LOG_INFO)
    __header_schema__: ClassVar = RequestHeader
    topic_id: UUID | None = field(metadata=_wire("uuid"))
    partitions: tuple[int, ...] = field(metadata=_wire("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReplicaLogInfoRequest:
    """The partitions whose logs the controller asks about."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(GET_REPLICA_LOG_INFO)
    __header_schema__: ClassVar = RequestHeader
    topic_partitions: tuple[TopicPartitions, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLogInfo:
    """The end of one log, and the newest leader epoch that its broker knows; -1 if unknown."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(GET_REPLICA_LOG_INFO)
    __header_schema__: ClassVar = ResponseHeader
    partition: int = field(metadata=_wire("int32"))
    last_written_leader_epoch: int = field(metadata=_wire("int32"))
    current_leader_epoch: int = field(metadata=_wire("int32"))
    log_end_offset: int = field(metadata=_wire("int64"))
    error_code: ErrorCode = field(metadata=_wire("error_code"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitionLogInfo:
    """The logs of one topic's partitions."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(GET_REPLICA_LOG_INFO)
    __header_schema__: ClassVar = ResponseHeader
    topic_id: UUID | None = field(metadata=_wire("uuid"))
    partition_log_info: tuple[PartitionLogInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReplicaLogInfoResponse:
    """The logs of the request, and the epoch of the broker that has them."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(GET_REPLICA_LOG_INFO)
    __header_schema__: ClassVar = ResponseHeader
    throttle_time_ms: int = field(metadata=_wire("int32"), default=0)
    broker_epoch: int = field(metadata=_wire("int64"))
    truncated: bool = field(metadata=_wire("bool"), default=False)
    topic_partition_log_info_list: tuple[TopicPartitionLogInfo, ...]
