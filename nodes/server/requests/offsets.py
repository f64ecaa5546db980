"""Requests for positions in logs: by time (ListOffsets), by leader epoch (OffsetForLeaderEpoch).

Answered by the leader alone, so that a client never mistakes a lagging replica's view for the log.
"""

import math
from bisect import bisect_right
from collections import Counter
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.ids import NO_EPOCH, NO_OFFSET, Offset, TopicPartition
from nodes.log.log import Log
from nodes.replication.partition import Role
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version of ListOffsets from which each time that is none may be asked for."""

OFFSET_NOT_AVAILABLE_SINCE = 5
CONSUMER = -1
DEBUGGER = -2
"""Kafka's replica id of a tool that may ask any replica, not the leader alone."""


class Position(NamedTuple):
    """An answer to ListOffsets."""

    error: ErrorCode
    offset: Offset = NO_OFFSET
    timestamp_ms: int = -1
    leader_epoch: int = NO_EPOCH


_REFUSED = Position(ErrorCode.invalid_request)


class OffsetsHandler:
    """Serves ListOffsets and OffsetForLeaderEpoch."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def list_offsets(self, request: Any, context: RequestContext) -> Any:
        """Offsets by time; LATEST is the high watermark to clients, the log end to brokers."""
        asked = Counter(
            (topic.name, part.partition_index)
            for topic in request.topics
            for part in topic.partitions
        )
        topics = []
        for topic in request.topics:
            rows = []
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                twice = asked[partition] > 1
                position = _REFUSED if twice else self._position(request, partition, part)
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
        timestamp_ms = part.timestamp
        if timestamp_ms < 0 and _SINCE.get(timestamp_ms, math.inf) > request.__version__:
            return Position(ErrorCode.unsupported_version)
        replica = self._replicas.find(partition)
        if replica is None:
            return Position(self._replicas.missing_replica_error(partition))
        error = leadership_error(
            replica,
            getattr(part, "current_leader_epoch", NO_EPOCH),
            leader_only=request.replica_id != DEBUGGER,
        )
        if error is not ErrorCode.none:
            return Position(error)
        log, state = replica.log, replica.state
        if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):  # no part of a log is stored elsewhere
            return _at(log, log.start_offset)
        if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # nor will be
            return Position(ErrorCode.none)
        to_client = request.replica_id == CONSUMER
        upper = state.high_watermark if to_client else log.end_offset
        if timestamp_ms != LATEST:
            found = _by_time(replica.log, timestamp_ms)
            if found.offset < upper:
                return found
        # A new leader may not know yet how far its predecessor had committed (KIP-207).
        if to_client and state.high_watermark < state.epoch_start:
            modern = request.__version__ >= OFFSET_NOT_AVAILABLE_SINCE
            return Position(
                ErrorCode.offset_not_available if modern else ErrorCode.leader_not_available
            )
        if timestamp_ms == LATEST:
            return Position(ErrorCode.none, upper, -1, state.leader_epoch)
        return Position(ErrorCode.none)

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
            return {**row, "error_code": self._replicas.missing_replica_error(partition)}
        error = leadership_error(replica, getattr(part, "current_leader_epoch", NO_EPOCH))
        if error is not ErrorCode.none:
            return {**row, "error_code": error}
        epoch, end = replica.log.end_offset_for_epoch(part.leader_epoch)
        return {**row, "leader_epoch": epoch, "end_offset": end}


def _at(log: Log, offset: Offset, timestamp_ms: int = -1) -> Position:
    """The position `offset`, with the leader epoch of the record there, if there is one."""
    number = bisect_right(log.epochs, offset, key=lambda entry: entry[1])
    epoch = log.epochs[number - 1][0] if number and offset < log.end_offset else NO_EPOCH
    return Position(ErrorCode.none, offset, timestamp_ms, epoch)


def _by_time(log: Log, timestamp_ms: int) -> Position:
    """The first record at or after a time, or of the largest time; offset -1 when there is none."""
    if timestamp_ms == MAX_TIMESTAMP:
        offset, at_ms = log.max_timestamp()
    else:
        offset, at_ms = log.offset_for_timestamp(timestamp_ms) or (NO_OFFSET, -1)
    return Position(ErrorCode.none) if offset < 0 else _at(log, offset, at_ms)


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
