"""Requests for positions in logs: by time (ListOffsets), by leader epoch (OffsetForLeaderEpoch).

Only the leader answers, so that a client never takes the end of a lagging replica for the log's.
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
"""The first version of ListOffsets that has each of these special timestamps."""

OFFSET_NOT_AVAILABLE_SINCE = 5
READ_COMMITTED = 1
CONSUMER = -1
DEBUGGER = -2
"""Kafka's replica id of a debugging tool, which may ask any replica, not only the leader."""


class ListedOffset(NamedTuple):
    """The result of ListOffsets for one partition."""

    error: ErrorCode
    offset: Offset = NO_OFFSET
    timestamp_ms: int = -1
    leader_epoch: int = NO_EPOCH


_REFUSED = ListedOffset(ErrorCode.invalid_request)


class OffsetsHandler:
    """Serves ListOffsets and OffsetForLeaderEpoch."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def list_offsets(self, request: Any, context: RequestContext) -> Any:
        """ListOffsets; LATEST is the high watermark for clients, the last stable offset for those
        with isolation.level=read_committed, the log end for brokers.
        """
        requested = Counter(
            (topic.name, part.partition_index)
            for topic in request.topics
            for part in topic.partitions
        )
        topics = []
        for topic in request.topics:
            rows = []
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                twice = requested[partition] > 1
                listed = _REFUSED if twice else self._listed_offset(request, partition, part)
                rows.append(
                    {
                        "partition_index": part.partition_index,
                        "error_code": listed.error,
                        "timestamp": listed.timestamp_ms,
                        "offset": listed.offset,
                        "leader_epoch": listed.leader_epoch,
                    }
                )
            topics.append({"name": topic.name, "partitions": rows})
        return respond(request, topics=topics)

    def _listed_offset(self, request: Any, partition: TopicPartition, part: Any) -> ListedOffset:
        timestamp_ms = part.timestamp
        if timestamp_ms < 0 and _SINCE.get(timestamp_ms, math.inf) > request.__version__:
            return ListedOffset(ErrorCode.unsupported_version)
        replica = self._replicas.find(partition)
        if replica is None:
            return ListedOffset(self._replicas.missing_replica_error(partition))
        error = leadership_error(
            replica,
            getattr(part, "current_leader_epoch", NO_EPOCH),
            leader_only=request.replica_id != DEBUGGER,
        )
        if error is not ErrorCode.none:
            return ListedOffset(error)
        log, state = replica.log, replica.state
        if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):  # there is no tiered storage here
            return _at(log, log.start_offset)
        if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return ListedOffset(ErrorCode.none)
        to_client = request.replica_id == CONSUMER
        upper = state.high_watermark if to_client else log.end_offset
        if to_client and getattr(request, "isolation_level", 0) == READ_COMMITTED:  # since v2
            upper = replica.last_stable_offset
        if timestamp_ms != LATEST:
            found = _by_time(replica.log, timestamp_ms)
            if found.offset < upper:
                return found
        # A new leader may not know yet up to where its predecessor committed (KIP-207).
        if to_client and state.high_watermark < state.epoch_start:
            modern = request.__version__ >= OFFSET_NOT_AVAILABLE_SINCE
            return ListedOffset(
                ErrorCode.offset_not_available if modern else ErrorCode.leader_not_available
            )
        if timestamp_ms == LATEST:
            return ListedOffset(ErrorCode.none, upper, -1, state.leader_epoch)
        return ListedOffset(ErrorCode.none)

    def offset_for_leader_epoch(self, request: Any, context: RequestContext) -> Any:
        """OffsetForLeaderEpoch: where leader epochs end; shows clients a truncation (KIP-320)."""
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


def _at(log: Log, offset: Offset, timestamp_ms: int = -1) -> ListedOffset:
    """Return `offset` with the leader epoch of the record there, if there is one."""
    number = bisect_right(log.epochs, offset, key=lambda entry: entry[1])
    epoch = log.epochs[number - 1][0] if number and offset < log.end_offset else NO_EPOCH
    return ListedOffset(ErrorCode.none, offset, timestamp_ms, epoch)


def _by_time(log: Log, timestamp_ms: int) -> ListedOffset:
    """Find the first record at or after a time, or with the largest time; offset -1 if none."""
    if timestamp_ms == MAX_TIMESTAMP:
        offset, at_ms = log.max_timestamp()
    else:
        offset, at_ms = log.offset_for_timestamp(timestamp_ms) or (NO_OFFSET, -1)
    return ListedOffset(ErrorCode.none) if offset < 0 else _at(log, offset, at_ms)


def leadership_error(replica: Replica, epoch: int, *, leader_only: bool = True) -> ErrorCode:
    """Return the error if this replica may not serve a request with the leader epoch `epoch`.

    -1 means that the request has no epoch. The leader may serve it; without `leader_only`, every
    replica of the assignment may.
    """
    state = replica.state
    if epoch > state.leader_epoch:
        return ErrorCode.unknown_leader_epoch
    if 0 <= epoch < state.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    serves = state.role is Role.LEADER or not (leader_only or state.leader_epoch < 0)
    return ErrorCode.none if serves else ErrorCode.not_leader_or_follower
