"""Produce requests: append as the leader, answer by acks.

acks=0: no answer (the connection is closed on an error, as Kafka does, for there is no other way to
tell). acks=1: after the local append, and its flush where the topic asks for one. acks=all: when
the high watermark has passed the batch, or when it is known that it will not. A batch that repeats
a remembered one is answered with the offset that it got the first time, and waits like the first.
Where the topic asks for LogAppendTime, the batch gets this broker's wall clock, and the answer
tells it; that to a batch repeated tells the first one's, as long as the log has it.
Who asks a broker that does not lead is told who does (KIP-951). Transactions are refused.
A request with very much in it is appended in slices, between which others are served.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.ids import NO_OFFSET, NodeId, Offset, TopicPartition
from nodes.log import errors as log_errors
from nodes.log.batch import HEADER_BYTES, read_header, with_append_time
from nodes.log.log import Appended
from nodes.log.record_validation import MAX_WALKED, MIN_RECORD_BYTES
from nodes.replication.partition import Ack
from nodes.server.purgatory.delayed_responses import LongPoll
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.server.requests.current_leader import current_leader, node_endpoints
from nodes.wire.errors import Unanswerable
from nodes.wire.server import Alone, RequestContext
from nodes.wire.versions import respond

ZSTD_SINCE = 7
CURRENT_LEADER_SINCE = 10
TOPIC_IDS_SINCE = 13

_MAGIC_AT, _ATTRIBUTES_AT = 16, 22
_CODEC_MASK, _ZSTD = 0x07, 4
_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x08, 0x10, 0x20

_COUNT, _COUNT_AT = struct.Struct(">i"), 57

PART_US, RECORD_US, BYTE_US = 10.0, 0.6, 0.001
"""What a partition of a request costs, each of its records, and each of its bytes."""
SLICE_US = 20_000.0

_ACK_ERRORS = {
    Ack.DONE: ErrorCode.none,
    Ack.NOT_LEADER: ErrorCode.not_leader_or_follower,
    Ack.TOO_FEW_REPLICAS: ErrorCode.not_enough_replicas_after_append,
    Ack.WAIT: ErrorCode.request_timed_out,
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
_SAID_BY_CODE = frozenset({ErrorCode.none, ErrorCode.not_leader_or_follower})
"""Errors that need no sentence beside their code."""


class _Part(NamedTuple):
    """One partition of a request; `partition` is None when no topic has the id."""

    topic_key: Any
    number: int
    partition: TopicPartition | None
    records: bytes | None


class _Outcome(NamedTuple):
    """What became of one partition's batch; `pending` decides the error when it is there."""

    part: _Part
    error: ErrorCode
    message: str | None = None
    base_offset: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    append_time_ms: int | None = None
    replica: Replica | None = None
    pending: "asyncio.Future[Ack] | None" = None


class ProduceHandler:
    """Serves Produce."""

    def __init__(self, replicas: ReplicaManager, wall_clock_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._wall_clock_ms = wall_clock_ms

    def handle(self, request: Any, context: RequestContext) -> Any:
        """The response, an awaitable of it while something has to be waited for, or None (acks=0).

        Raises Unanswerable when an acks=0 request fails.
        """
        parts = self._parts(request)
        if sum(map(_cost_us, parts)) > SLICE_US:
            return Alone(self._in_slices(request, parts, context))
        acks = int(request.acks)
        outcomes = [self._outcome(request, part, acks) for part in parts]
        return self._answer(request, outcomes, context)

    async def _in_slices(
        self, request: Any, parts: Sequence[_Part], context: RequestContext
    ) -> Any:
        outcomes, spent_us = [], 0.0
        for part in parts:
            if spent_us > SLICE_US:
                spent_us = 0.0
                await asyncio.sleep(0)
            outcomes.append(self._outcome(request, part, int(request.acks)))
            spent_us += _cost_us(part)
        answer = self._answer(request, outcomes, context)
        return await answer if isinstance(answer, asyncio.Future) else answer

    def _answer(self, request: Any, outcomes: Sequence[_Outcome], context: RequestContext) -> Any:
        """See `handle`."""
        if request.acks == 0:
            failed = next((each for each in outcomes if each.error), None)
            if failed is not None:
                where = failed.part.partition or failed.part.topic_key
                raise Unanswerable(f"acks=0 produce to {where}: {failed.error.name}")
            return None
        if any(outcome.pending for outcome in outcomes):
            respond_to = partial(self._response, request, listener=context.listener)
            return _Poll(outcomes, respond_to).begin(request.timeout.total_seconds())
        return self._response(request, outcomes, context.listener)

    def _parts(self, request: Any) -> list[_Part]:
        parts = []
        by_id = request.__version__ >= TOPIC_IDS_SINCE
        for topic in request.topic_data:
            key: UUID | str | None = topic.topic_id if by_id else topic.name
            name = self._replicas.topic_name(topic.topic_id) if by_id else topic.name
            for data in topic.partition_data:
                partition = None if name is None else TopicPartition(name, data.index)
                parts.append(_Part(key, data.index, partition, data.records))
        return parts

    def _outcome(self, request: Any, part: _Part, acks: int) -> _Outcome:
        if acks not in (-1, 0, 1):
            return _Outcome(part, ErrorCode.invalid_required_acks)
        if request.transactional_id is not None:
            return _Outcome(part, ErrorCode.invalid_txn_state, "transactions are not served")
        if part.partition is None:
            return _Outcome(part, ErrorCode.unknown_topic_id)
        unfit = _unfit(part.records or b"", request.__version__)
        if unfit is not None:
            return _Outcome(part, *unfit)
        replica = self._replicas.find(part.partition)
        if replica is None:
            return _Outcome(part, self._replicas.why_not_here(part.partition))
        return self._append(part, replica, acks)

    def _append(self, part: _Part, replica: Replica, acks: int) -> _Outcome:
        match replica.state.may_append(acks):
            case Ack.NOT_LEADER:
                return _Outcome(part, ErrorCode.not_leader_or_follower)
            case Ack.TOO_FEW_REPLICAS:
                state = replica.state
                message = f"{len(state.isr)} in-sync replicas, fewer than the {state.min_isr} asked"
                return _Outcome(part, ErrorCode.not_enough_replicas, message)
            case _:
                pass
        records, append_time_ms = part.records or b"", None
        try:
            if replica.log.config.log_append_time:
                append_time_ms = self._wall_clock_ms()
                records = with_append_time(records, append_time_ms)
            appended = replica.append(records)
            if appended.duplicate:
                append_time_ms = _first_time(replica, appended)
        except (log_errors.LogError, OSError) as error:
            return _Outcome(part, _error_code(error), str(error))
        outcome = _Outcome(
            part,
            ErrorCode.none,
            base_offset=appended.base_offset,
            log_start=replica.log.start_offset,
            append_time_ms=append_time_ms,
            replica=replica,
        )
        if acks == 0:
            return outcome
        ack = replica.acknowledge(Offset(appended.last_offset + 1), acks)
        if isinstance(ack, Ack):
            return outcome._replace(error=_ACK_ERRORS[ack])
        return outcome._replace(pending=ack)

    def _response(self, request: Any, outcomes: Sequence[_Outcome], listener: str) -> Any:
        by_topic: dict[Any, list[dict[str, Any]]] = {}
        leaders: list[NodeId] = []
        for outcome in outcomes:
            failed = outcome.error is not ErrorCode.none
            row: dict[str, Any] = {
                "index": outcome.part.number,
                "error_code": outcome.error,
                "base_offset": NO_OFFSET if failed else outcome.base_offset,
                "log_start_offset": outcome.log_start,
            }
            if failed:
                self._explain(request, outcome, row, leaders)
            elif outcome.append_time_ms is not None:
                row["log_append_time"] = datetime.fromtimestamp(outcome.append_time_ms / 1000, UTC)
            by_topic.setdefault(outcome.part.topic_key, []).append(row)
        key_name = "topic_id" if request.__version__ >= TOPIC_IDS_SINCE else "name"
        topics = [{key_name: key, "partition_responses": rows} for key, rows in by_topic.items()]
        endpoints = node_endpoints(self._replicas.image, leaders, listener) if leaders else ()
        return respond(request, responses=topics, node_endpoints=endpoints)

    def _explain(
        self, request: Any, outcome: _Outcome, row: dict[str, Any], leaders: list[NodeId]
    ) -> None:
        """Add to a failed partition's row why it failed, and who leads instead."""
        if outcome.error not in _SAID_BY_CODE:
            row["error_message"] = outcome.message
        if outcome.error is ErrorCode.invalid_record:  # one batch, refused whole
            row["record_errors"] = [
                {"batch_index": 0, "batch_index_error_message": outcome.message}
            ]
        asks_wrong_broker = outcome.error is ErrorCode.not_leader_or_follower
        partition = outcome.part.partition
        if asks_wrong_broker and partition and request.__version__ >= CURRENT_LEADER_SINCE:
            row["current_leader"] = current_leader(self._replicas.image, partition)
            leaders.append(NodeId(row["current_leader"]["leader_id"]))


class _Poll(LongPoll):
    """A produce that waits until every partition's fate is known."""

    def __init__(
        self, outcomes: Sequence[_Outcome], respond: Callable[[Sequence[_Outcome]], Any]
    ) -> None:
        super().__init__()
        self._outcomes = outcomes
        self._respond = respond
        self._pending = [each.pending for each in outcomes if each.pending is not None]

    def wait(self) -> None:
        self._pending[0].add_done_callback(self.woken)

    def look(self, *, last: bool) -> Any:
        while self._pending and self._pending[0].done():
            del self._pending[0]
        if self._pending and not last:
            return None
        return self._respond([_settled(outcome) for outcome in self._outcomes])

    def leave(self) -> None:
        if self._pending:
            self._pending[0].remove_done_callback(self.woken)


def _cost_us(part: _Part) -> float:
    """About how long a part takes, by what it announces."""
    records = part.records or b""
    if len(records) < HEADER_BYTES:
        return PART_US
    count: int = _COUNT.unpack_from(records, _COUNT_AT)[0]
    walked = min(max(count, 0), MAX_WALKED, len(records) // MIN_RECORD_BYTES)
    return PART_US + RECORD_US * walked + BYTE_US * len(records)


def _unfit(records: bytes, version: int) -> tuple[ErrorCode, str] | None:
    """Why no log would take these bytes of a client, where the header's plain bytes tell."""
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


def _settled(outcome: _Outcome) -> _Outcome:
    if outcome.pending is None:
        return outcome
    if not outcome.pending.done():
        assert outcome.replica is not None
        outcome.replica.forget(outcome.pending)
        return outcome._replace(error=ErrorCode.request_timed_out)
    return outcome._replace(error=_ACK_ERRORS[outcome.pending.result()])


def _first_time(replica: Replica, first: Appended) -> int | None:
    """When a batch that is repeated was appended, where the leader's time says that."""
    if first.base_offset < replica.log.start_offset:
        return None
    header = read_header(replica.log.read(first.base_offset, 1, replica.log.end_offset))
    return header.max_timestamp if header.has_append_time else None


def _error_code(error: Exception) -> ErrorCode:
    return next(code for kind, code in _LOG_ERRORS if isinstance(error, kind))
