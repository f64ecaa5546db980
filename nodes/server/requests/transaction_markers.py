"""WriteTxnMarkers: a transaction coordinator ends transactions in the partitions led here.

A marker is appended with acks=all, and its partition is answered when the marker is committed: the
coordinator then forgets it. Each partition has its own result. A request of brokers; Kafka's
`kafka-transactions abort` sends it too (KIP-664).
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.ids import Offset, TopicPartition
from nodes.log.errors import LogError
from nodes.log.transactions.markers import Marker
from nodes.replication.partition import ProduceStatus
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.server.requests.append_errors import ACK_ERRORS, append_error
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

TIMEOUT_S = 30.0
"""How long a marker may take to be committed; Kafka's request.timeout.ms."""


class _Result(NamedTuple):
    """The result for one partition; if there is a future `pending`, it decides the error."""

    error: ErrorCode
    replica: Replica | None = None
    pending: "asyncio.Future[ProduceStatus] | None" = None


class _Row(NamedTuple):
    """One partition of one marker."""

    topic: str
    partition: int
    result: _Result


class TransactionMarkersHandler:
    """Serves WriteTxnMarkers."""

    def __init__(self, replicas: ReplicaManager, wall_clock_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._wall_clock_ms = wall_clock_ms

    def handle(self, request: Any, context: RequestContext) -> Any:
        """Append the markers; return the response, or an awaitable of it."""
        written = [(each.producer_id, self._write(each)) for each in request.markers]
        pending = [row.result.pending for _, rows in written for row in rows if row.result.pending]
        if pending:
            return self._respond_later(request, written, pending)
        return _response(request, written)

    def _write(self, requested: Any) -> list[_Row]:
        marker = Marker(
            requested.producer_id,
            requested.producer_epoch,
            requested.coordinator_epoch,
            requested.transaction_result,
        )
        version = getattr(requested, "transaction_version", 0)  # since v2
        return [
            _Row(
                topic.name,
                number,
                self._append(TopicPartition(topic.name, number), marker, version),
            )
            for topic in requested.topics
            for number in topic.partition_indexes
        ]

    def _append(self, partition: TopicPartition, marker: Marker, version: int) -> _Result:
        replica = self._replicas.find(partition)
        if replica is None:
            return _Result(self._replicas.missing_replica_error(partition))
        match replica.state.check_append(-1):
            case ProduceStatus.NOT_LEADER:
                return _Result(ErrorCode.not_leader_or_follower)
            case ProduceStatus.NOT_ENOUGH_REPLICAS:
                return _Result(ErrorCode.not_enough_replicas)
            case _:
                pass
        try:
            appended = replica.append_marker(
                marker, self._wall_clock_ms(), transaction_version=version
            )
        except (LogError, OSError) as error:
            return _Result(append_error(error))
        ack = replica.acknowledge(Offset(appended.last_offset + 1), -1)
        if isinstance(ack, ProduceStatus):
            return _Result(ACK_ERRORS[ack])
        return _Result(ErrorCode.none, replica, ack)

    async def _respond_later(
        self,
        request: Any,
        written: list[tuple[int, list[_Row]]],
        pending: "list[asyncio.Future[ProduceStatus]]",
    ) -> Any:
        try:
            await asyncio.wait(pending, timeout=TIMEOUT_S)
            return _response(request, written)
        finally:
            for _, rows in written:
                for row in rows:
                    if row.result.pending and row.result.replica and not row.result.pending.done():
                        row.result.replica.stop_waiting(row.result.pending)


def _response(request: Any, written: list[tuple[int, list[_Row]]]) -> Any:
    markers = []
    for producer_id, rows in written:
        topics: dict[str, list[dict[str, Any]]] = {}
        for topic, number, result in rows:
            row = {"partition_index": number, "error_code": _error(result)}
            topics.setdefault(topic, []).append(row)
        named = [{"name": name, "partitions": parts} for name, parts in topics.items()]
        markers.append({"producer_id": producer_id, "topics": named})
    return respond(request, markers=markers)


def _error(result: _Result) -> ErrorCode:
    if result.pending is None:
        return result.error
    done = result.pending.done()
    return ACK_ERRORS[result.pending.result() if done else ProduceStatus.PENDING]
