"""Produce requests: append the batches as the leader, and respond according to acks.

- acks=0: no response. An error closes the connection, as in Kafka; nothing else can report it.
- acks=1: respond after the local append, and after its flush if the topic asks for one.
- acks=all: respond when the high watermark has passed the batch, or when it surely will not.

The response to a duplicate batch has the offset of the first one, and waits like the first. If the
topic asks for LogAppendTime, the batch gets this broker's wall clock, and the response reports it;
the response to a duplicate reports the time of the first batch, as long as the log has that batch.
A broker that does not lead names the leader in its response (KIP-951). Transactions are refused. A
very large request is appended in slices, and other requests are served between two slices.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.coordinators.internal_topics import INTERNAL_TOPICS
from nodes.ids import NO_OFFSET, NodeId, Offset, TopicPartition
from nodes.log import errors as log_errors
from nodes.log.batch import HEADER_BYTES, read_header, with_append_time
from nodes.log.log import LogAppendInfo
from nodes.log.record_validation import MAX_WALKED, MIN_RECORD_BYTES
from nodes.replication.partition import ProduceStatus
from nodes.server.purgatory.delayed_responses import DelayedResponse
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.server.requests.current_leader import current_leader, node_endpoints
from nodes.wire.errors import Unanswerable
from nodes.wire.server import ExclusiveResponse, RequestContext
from nodes.wire.versions import respond

ADMIN_CLIENT = "__admin_client"
"""The client id that may write to internal topics, as in Kafka."""
ZSTD_SINCE = 7
CURRENT_LEADER_SINCE = 10
TOPIC_IDS_SINCE = 13

_MAGIC_AT, _ATTRIBUTES_AT = 16, 22
_CODEC_MASK, _ZSTD = 0x07, 4
_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x08, 0x10, 0x20

_COUNT, _COUNT_AT = struct.Struct(">i"), 57

PARTITION_US, RECORD_US, BYTE_US = 10.0, 0.6, 0.001
"""The cost of a partition of a request, of each of its records, and of each of its bytes."""
SLICE_US = 20_000.0

_ACK_ERRORS = {
    ProduceStatus.OK: ErrorCode.none,
    ProduceStatus.NOT_LEADER: ErrorCode.not_leader_or_follower,
    ProduceStatus.NOT_ENOUGH_REPLICAS: ErrorCode.not_enough_replicas_after_append,
    ProduceStatus.PENDING: ErrorCode.request_timed_out,
}
_LOG_ERRORS: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (log_errors.CorruptBatch, ErrorCode.corrupt_message),
    (log_errors.MessageTooLarge, ErrorCode.message_too_large),
    (log_errors.OutOfOrderSequence, ErrorCode.out_of_order_sequence_number),
    (log_errors.InvalidProducerEpoch, ErrorCode.invalid_producer_epoch),
    (log_errors.InvalidBatch, ErrorCode.invalid_record),
    (log_errors.LogOffline, ErrorCode.kafka_storage_error),
    (log_errors.LogError, ErrorCode.unknown_server_error),
    (OSError, ErrorCode.kafka_storage_error),
)
_WITHOUT_MESSAGE = frozenset({ErrorCode.none, ErrorCode.not_leader_or_follower})
"""Error codes that need no message beside them."""


class _RequestedPartition(NamedTuple):
    """One partition of a request; `partition` is None when no topic has the id."""

    topic_key: Any
    number: int
    partition: TopicPartition | None
    records: bytes | None


class _ProduceResult(NamedTuple):
    """The result for one partition; if there is a future `pending`, it decides the error."""

    requested: _RequestedPartition
    error: ErrorCode
    message: str | None = None
    base_offset: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    append_time_ms: int | None = None
    replica: Replica | None = None
    pending: "asyncio.Future[ProduceStatus] | None" = None


class ProduceHandler:
    """Serves Produce."""

    def __init__(self, replicas: ReplicaManager, wall_clock_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._wall_clock_ms = wall_clock_ms

    def handle(self, request: Any, context: RequestContext) -> Any:
        """Return the response, an awaitable of it if it has to wait, or None (acks=0).

        Raises Unanswerable when an acks=0 request fails.
        """
        partitions = self._requested(request)
        if sum(map(_cost_us, partitions)) > SLICE_US:
            return ExclusiveResponse(self._append_in_slices(request, partitions, context))
        acks = int(request.acks)
        results = [self._produce(request, each, acks, context) for each in partitions]
        return self._respond_or_wait(request, results, context)

    async def _append_in_slices(
        self, request: Any, partitions: Sequence[_RequestedPartition], context: RequestContext
    ) -> Any:
        results, spent_us = [], 0.0
        for requested in partitions:
            if spent_us > SLICE_US:
                spent_us = 0.0
                await asyncio.sleep(0)
            results.append(self._produce(request, requested, int(request.acks), context))
            spent_us += _cost_us(requested)
        response = self._respond_or_wait(request, results, context)
        return await response if isinstance(response, asyncio.Future) else response

    def _respond_or_wait(
        self, request: Any, results: Sequence[_ProduceResult], context: RequestContext
    ) -> Any:
        """See `handle`."""
        if request.acks == 0:
            failed = next((each for each in results if each.error), None)
            if failed is not None:
                where = failed.requested.partition or failed.requested.topic_key
                raise Unanswerable(f"acks=0 produce to {where}: {failed.error.name}")
            return None
        if any(result.pending for result in results):
            response_of = partial(self._response, request, listener=context.listener)
            return _DelayedProduce(results, response_of).start(request.timeout.total_seconds())
        return self._response(request, results, context.listener)

    def _requested(self, request: Any) -> list[_RequestedPartition]:
        requested = []
        by_id = request.__version__ >= TOPIC_IDS_SINCE
        for topic in request.topic_data:
            key: UUID | str | None = topic.topic_id if by_id else topic.name
            name = self._replicas.topic_name(topic.topic_id) if by_id else topic.name
            for data in topic.partition_data:
                partition = None if name is None else TopicPartition(name, data.index)
                requested.append(_RequestedPartition(key, data.index, partition, data.records))
        return requested

    def _produce(
        self, request: Any, requested: _RequestedPartition, acks: int, context: RequestContext
    ) -> _ProduceResult:
        if acks not in (-1, 0, 1):
            return _ProduceResult(requested, ErrorCode.invalid_required_acks)
        if request.transactional_id is not None:
            message = "transactions are not served"
            return _ProduceResult(requested, ErrorCode.invalid_txn_state, message)
        if requested.partition is None:
            return _ProduceResult(requested, ErrorCode.unknown_topic_id)
        if requested.partition.topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT:
            message = "only coordinators write to internal topics"
            return _ProduceResult(requested, ErrorCode.invalid_topic_exception, message)
        invalid = _invalid_batch(requested.records or b"", request.__version__)
        if invalid is not None:
            return _ProduceResult(requested, *invalid)
        replica = self._replicas.find(requested.partition)
        if replica is None:
            error = self._replicas.missing_replica_error(requested.partition)
            return _ProduceResult(requested, error)
        return self._append(requested, replica, acks)

    def _append(
        self, requested: _RequestedPartition, replica: Replica, acks: int
    ) -> _ProduceResult:
        match replica.state.check_append(acks):
            case ProduceStatus.NOT_LEADER:
                return _ProduceResult(requested, ErrorCode.not_leader_or_follower)
            case ProduceStatus.NOT_ENOUGH_REPLICAS:
                state = replica.state
                message = f"{len(state.isr)} in-sync replicas, fewer than the {state.min_isr} asked"
                return _ProduceResult(requested, ErrorCode.not_enough_replicas, message)
            case _:
                pass
        records, append_time_ms = requested.records or b"", None
        try:
            if replica.log.config.log_append_time:
                append_time_ms = self._wall_clock_ms()
                records = with_append_time(records, append_time_ms)
            appended = replica.append(records)
            if appended.duplicate:
                append_time_ms = _append_time_of_first(replica, appended)
        except (log_errors.LogError, OSError) as error:
            return _ProduceResult(requested, _error_code(error), str(error))
        result = _ProduceResult(
            requested,
            ErrorCode.none,
            base_offset=appended.base_offset,
            log_start=replica.log.start_offset,
            append_time_ms=append_time_ms,
            replica=replica,
        )
        if acks == 0:
            return result
        ack = replica.acknowledge(Offset(appended.last_offset + 1), acks)
        if isinstance(ack, ProduceStatus):
            return result._replace(error=_ACK_ERRORS[ack])
        return result._replace(pending=ack)

    def _response(self, request: Any, results: Sequence[_ProduceResult], listener: str) -> Any:
        by_topic: dict[Any, list[dict[str, Any]]] = {}
        leaders: list[NodeId] = []
        for result in results:
            failed = result.error is not ErrorCode.none
            row: dict[str, Any] = {
                "index": result.requested.number,
                "error_code": result.error,
                "base_offset": NO_OFFSET if failed else result.base_offset,
                "log_start_offset": result.log_start,
            }
            if failed:
                self._add_error_details(request, result, row, leaders)
            elif result.append_time_ms is not None:
                row["log_append_time"] = datetime.fromtimestamp(result.append_time_ms / 1000, UTC)
            by_topic.setdefault(result.requested.topic_key, []).append(row)
        key_name = "topic_id" if request.__version__ >= TOPIC_IDS_SINCE else "name"
        topics = [{key_name: key, "partition_responses": rows} for key, rows in by_topic.items()]
        endpoints = node_endpoints(self._replicas.image, leaders, listener) if leaders else ()
        return respond(request, responses=topics, node_endpoints=endpoints)

    def _add_error_details(
        self, request: Any, result: _ProduceResult, row: dict[str, Any], leaders: list[NodeId]
    ) -> None:
        """Add to a failed partition's row why it failed, and which node leads."""
        if result.error not in _WITHOUT_MESSAGE:
            row["error_message"] = result.message
        if result.error is ErrorCode.invalid_record:  # the whole batch is refused
            row["record_errors"] = [{"batch_index": 0, "batch_index_error_message": result.message}]
        not_leader = result.error is ErrorCode.not_leader_or_follower
        partition = result.requested.partition
        if not_leader and partition and request.__version__ >= CURRENT_LEADER_SINCE:
            row["current_leader"] = current_leader(self._replicas.image, partition)
            leaders.append(NodeId(row["current_leader"]["leader_id"]))


class _DelayedProduce(DelayedResponse):
    """A produce request that waits until the ack of every partition is known."""

    def __init__(
        self,
        results: Sequence[_ProduceResult],
        response_of: Callable[[Sequence[_ProduceResult]], Any],
    ) -> None:
        super().__init__()
        self._results = results
        self._response_of = response_of
        self._pending = [each.pending for each in results if each.pending is not None]

    def watch(self) -> None:
        self._pending[0].add_done_callback(self.check_and_complete)

    def try_complete(self, *, forced: bool) -> Any:
        while self._pending and self._pending[0].done():
            del self._pending[0]
        if self._pending and not forced:
            return None
        return self._response_of([_final(result) for result in self._results])

    def unwatch(self) -> None:
        if self._pending:
            self._pending[0].remove_done_callback(self.check_and_complete)


def _cost_us(requested: _RequestedPartition) -> float:
    """About how long a partition takes, judged by what its batch announces."""
    records = requested.records or b""
    if len(records) < HEADER_BYTES:
        return PARTITION_US
    count: int = _COUNT.unpack_from(records, _COUNT_AT)[0]
    walked = min(max(count, 0), MAX_WALKED, len(records) // MIN_RECORD_BYTES)
    return PARTITION_US + RECORD_US * walked + BYTE_US * len(records)


def _invalid_batch(records: bytes, version: int) -> tuple[ErrorCode, str] | None:
    """Why a client's batch is refused, as far as the fixed fields of its header show it."""
    if len(records) <= _ATTRIBUTES_AT:
        return ErrorCode.invalid_record, "a produce has exactly one record batch for a partition"
    if records[_MAGIC_AT] != 2:
        return ErrorCode.invalid_record, f"magic {records[_MAGIC_AT]}: only record batches v2"
    attributes = records[_ATTRIBUTES_AT]
    if attributes & _CONTROL:
        return ErrorCode.invalid_record, "clients may not write control records"
    if attributes & _TRANSACTIONAL:
        return ErrorCode.invalid_txn_state, "transactions are not served"
    if attributes & _APPEND_TIME:
        return ErrorCode.invalid_timestamp, "LogAppendTime is the broker's to set"
    if attributes & _CODEC_MASK > _ZSTD:
        return ErrorCode.unsupported_compression_type, f"codec {attributes & _CODEC_MASK}"
    if attributes & _CODEC_MASK == _ZSTD and version < ZSTD_SINCE:
        return ErrorCode.unsupported_compression_type, f"zstd needs Produce v{ZSTD_SINCE}"
    return None


def _final(result: _ProduceResult) -> _ProduceResult:
    """The result with its ack, or with REQUEST_TIMED_OUT if the ack is not known yet."""
    if result.pending is None:
        return result
    if not result.pending.done():
        assert result.replica is not None
        result.replica.stop_waiting(result.pending)
        return result._replace(error=ErrorCode.request_timed_out)
    return result._replace(error=_ACK_ERRORS[result.pending.result()])


def _append_time_of_first(replica: Replica, first: LogAppendInfo) -> int | None:
    """When the first of two equal batches was appended, if it has LogAppendTime."""
    if first.base_offset < replica.log.start_offset:
        return None
    header = read_header(replica.log.read(first.base_offset, 1, replica.log.end_offset))
    return header.max_timestamp if header.has_append_time else None


def _error_code(error: Exception) -> ErrorCode:
    return next(code for kind, code in _LOG_ERRORS if isinstance(error, kind))
