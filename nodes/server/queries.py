"""Requests for positions in logs."""

from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.ids import NO_EPOCH, NO_OFFSET, Offset, TopicPartition
from nodes.replication.partition import Role
from nodes.server.replica import Replica
from nodes.server.replicas import ReplicaManager
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
OFFSET_NOT_AVAILABLE_SINCE = 5
CONSUMER = -1


class Position(NamedTuple):
    """An answer to ListOffsets."""

    error: ErrorCode
    offset: Offset = NO_OFFSET
    timestamp_ms: int = -1
    leader_epoch: int = NO_EPOCH


class Queries:
    """Serves ListOffsets and OffsetForLeaderEpoch."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def list_offsets(self, request: Any, context: RequestContext) -> Any:
        """Offsets by time; LATEST is the high watermark to clients, the log end to brokers."""
        topics = []
        for topic in request.topics:
            rows = []
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                position = self._position(request, partition, part)
                rows.append(
                    {
                        "partition_index": part.partition_index,
                        "error_code": position.error,
                        "timestamp": position.timestamp_ms,
                        "offset": position.offset,
                        "leader_epoch": position.leader_epoch,
                    }
                )
            topics.append({"name": topic.name, "partitions": rows})
        return respond(request, topics=topics)

    def _position(self, request: Any, partition: TopicPartition, part: Any) -> Position:
        replica = self._replicas.find(partition)
        if replica is None:
            return Position(self._replicas.why_not_here(partition))
        error = leadership_error(replica, getattr(part, "current_leader_epoch", NO_EPOCH))
        if error is not ErrorCode.none:
            return Position(error)
        epoch = replica.state.leader_epoch
        if part.timestamp == EARLIEST:
            return Position(ErrorCode.none, replica.log.start_offset, -1, epoch)
        if part.timestamp == LATEST and request.replica_id != CONSUMER:
            return Position(ErrorCode.none, replica.log.end_offset, -1, epoch)
        if replica.state.high_watermark < replica.state.epoch_start:
            # A new leader may not know yet how far its predecessor had committed (KIP-207).
            modern = request.__version__ >= OFFSET_NOT_AVAILABLE_SINCE
            return Position(
                ErrorCode.offset_not_available if modern else ErrorCode.leader_not_available
            )
        if part.timestamp == LATEST:
            return Position(ErrorCode.none, replica.state.high_watermark, -1, epoch)
        return self._by_time(replica, part.timestamp)

    @staticmethod
    def _by_time(replica: Replica, timestamp_ms: int) -> Position:
        found = (
            replica.log.max_timestamp()
            if timestamp_ms == MAX_TIMESTAMP
            else replica.log.offset_for_timestamp(timestamp_ms)
        )
        if found is None or not 0 <= found[0] < replica.state.high_watermark:
            return Position(ErrorCode.none)
        offset, at_ms = found
        return Position(ErrorCode.none, offset, at_ms, replica.state.leader_epoch)

    def offset_for_leader_epoch(self, request: Any, context: RequestContext) -> Any:
        """Where leader epochs end: how followers and consumers find a truncation (KIP-320)."""
        topics = []
        for topic in request.topics:
            rows = [self._epoch_end(topic.topic, part) for part in topic.partitions]
            topics.append({"topic": topic.topic, "partitions": rows})
        return respond(request, topics=topics)

    def _epoch_end(self, topic: str, part: Any) -> dict[str, Any]:
        partition = TopicPartition(topic, part.partition)
        row: dict[str, Any] = {"partition": part.partition}
        replica = self._replicas.find(partition)
        if replica is None:
            return {**row, "error_code": self._replicas.why_not_here(partition)}
        error = leadership_error(replica, getattr(part, "current_leader_epoch", NO_EPOCH))
        if error is not ErrorCode.none:
            return {**row, "error_code": error}
        epoch, end = replica.log.end_offset_for_epoch(part.leader_epoch)
        return {**row, "leader_epoch": epoch, "end_offset": end}


def leadership_error(replica: Replica, epoch: int, *, leader_only: bool = True) -> ErrorCode:
    """Whether this node may answer, in the epoch that the asker believes (-1: it believes nothing).

    The leader may; without `leader_only`, so may any replica with a place in the assignment.
    """
    state = replica.state
    if epoch > state.leader_epoch:
        return ErrorCode.unknown_leader_epoch
    if 0 <= epoch < state.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    serves = state.role is Role.LEADER or not (leader_only or state.leader_epoch < 0)
    return ErrorCode.none if serves else ErrorCode.not_leader_or_follower
