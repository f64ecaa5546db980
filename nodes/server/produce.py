"""Produce requests: append as the leader, answer by acks.

acks=0: no answer (the connection is closed on an error, as Kafka does, for there is no other way to
tell). acks=1: after the local append. acks=all: when the high watermark has passed the batch, or
when it is known that it will not.
"""

import asyncio
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.ids import NO_OFFSET, Offset, TopicPartition
from nodes.log import errors as log_errors
from nodes.replication.partition import Ack
from nodes.server.replica import Replica
from nodes.server.replicas import ReplicaManager
from nodes.wire.errors import Unanswerable
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

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
    (log_errors.UnknownProducer, ErrorCode.unknown_producer_id),
    (log_errors.InvalidBatch, ErrorCode.invalid_record),
    (log_errors.LogOffline, ErrorCode.kafka_storage_error),
    (log_errors.LogError, ErrorCode.unknown_server_error),
    (OSError, ErrorCode.kafka_storage_error),
)


class _Outcome(NamedTuple):
    """What became of one partition's batch; `pending` decides the error when it is there."""

    partition: TopicPartition
    error: ErrorCode
    base_offset: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    pending: "asyncio.Future[Ack] | None" = None


class ProduceHandler:
    """Serves Produce."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, request: Any, context: RequestContext) -> Any:
        """The response, an awaitable of it (acks=all), or None (acks=0)."""
        acks = int(request.acks)
        valid = acks in (-1, 0, 1)
        outcomes = [
            self._append(TopicPartition(topic.name, data.index), data.records, acks)
            if valid
            else _Outcome(TopicPartition(topic.name, data.index), ErrorCode.invalid_required_acks)
            for topic in request.topic_data
            for data in topic.partition_data
        ]
        if acks == 0:
            failed = [outcome for outcome in outcomes if outcome.error]
            if failed:
                first = failed[0]
                raise Unanswerable(f"acks=0 produce to {first.partition}: {first.error.name}")
            return None
        if any(outcome.pending for outcome in outcomes):
            timeout_s = request.timeout.total_seconds()
            return self._wait(request, outcomes, timeout_s)
        return _response(request, outcomes)

    def _append(self, partition: TopicPartition, records: bytes | None, acks: int) -> _Outcome:
        replica = self._replicas.find(partition)
        if replica is None:
            return _Outcome(partition, self._replicas.why_not_here(partition))
        match replica.state.may_append(acks):
            case Ack.NOT_LEADER:
                return _Outcome(partition, ErrorCode.not_leader_or_follower)
            case Ack.TOO_FEW_REPLICAS:
                return _Outcome(partition, ErrorCode.not_enough_replicas)
            case _:
                pass
        try:
            appended = replica.append(records or b"")
        except (log_errors.LogError, OSError) as error:
            return _Outcome(partition, _error_code(error))
        outcome = _Outcome(
            partition, ErrorCode.none, appended.base_offset, replica.log.start_offset
        )
        return self._committed(outcome, replica, appended.last_offset) if acks == -1 else outcome

    @staticmethod
    def _committed(outcome: _Outcome, replica: Replica, last_offset: Offset) -> _Outcome:
        ack = replica.acknowledge(replica.state.leader_epoch, Offset(last_offset + 1))
        if isinstance(ack, Ack):
            return outcome._replace(error=_ACK_ERRORS[ack])
        return outcome._replace(pending=ack)

    @staticmethod
    async def _wait(request: Any, outcomes: list[_Outcome], timeout_s: float) -> Any:
        pending = [outcome.pending for outcome in outcomes if outcome.pending is not None]
        await asyncio.wait(pending, timeout=timeout_s)
        return _response(request, [_settled(outcome) for outcome in outcomes])


def _settled(outcome: _Outcome) -> _Outcome:
    if outcome.pending is None:
        return outcome
    if not outcome.pending.done():
        outcome.pending.cancel()
        return outcome._replace(error=ErrorCode.request_timed_out)
    return outcome._replace(error=_ACK_ERRORS[outcome.pending.result()])


def _error_code(error: Exception) -> ErrorCode:
    return next(code for kind, code in _LOG_ERRORS if isinstance(error, kind))


def _response(request: Any, outcomes: list[_Outcome]) -> Any:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for outcome in outcomes:
        failed = outcome.error is not ErrorCode.none
        by_topic.setdefault(outcome.partition.topic, []).append(
            {
                "index": outcome.partition.partition,
                "error_code": outcome.error,
                "base_offset": NO_OFFSET if failed else outcome.base_offset,
                "log_start_offset": outcome.log_start,
            }
        )
    topics = [{"name": name, "partition_responses": rows} for name, rows in by_topic.items()]
    return respond(request, responses=topics)
