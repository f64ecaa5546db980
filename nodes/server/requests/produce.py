"""Produce requests: append the batches as the leader, and respond according to acks.

- acks=0: no response. An error closes the connection, as in Kafka; nothing else can report it.
- acks=1: respond after the local append, and after its flush if the topic asks for one.
- acks=all: respond when the high watermark has passed the batch, or when it surely will not.

The response to a duplicate batch has the offset of the first one, and waits like the first. If the
topic asks for LogAppendTime, the batch gets this broker's wall clock, and the response reports it;
the response to a duplicate reports the time of the first batch, as long as the log has that batch.
A broker that does not lead names the leader in its response (KIP-951). The first batch of a
transaction is verified before its append (`verification`); meanwhile the connection's next request
does not begin. A very large request is appended in slices, and other requests are served between
two slices.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.coordinators.internal_topics import INTERNAL_TOPICS
from nodes.ids import NO_OFFSET, NodeId, Offset
from nodes.log import errors as log_errors
from nodes.log.batch import read_header, with_append_time
from nodes.log.log import LogAppendInfo
from nodes.replication.partition import ProduceStatus
from nodes.server.purgatory.delayed_responses import DelayedResponse
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.server.requests.append_errors import ACK_ERRORS, append_error
from nodes.server.requests.current_leader import current_leader, node_endpoints
from nodes.server.requests.produced_batches import (
    TOPIC_IDS_SINCE,
    RequestedPartition,
    after_verification,
    cost_us,
    invalid_batch,
    requested_partitions,
    transactional_batches,
)
from nodes.server.requests.verification import (
    ProduceVerification,
    TransactionVerifier,
    Verified,
)
from nodes.wire.errors import Unanswerable
from nodes.wire.server import ExclusiveResponse, RequestContext
from nodes.wire.versions import respond

ADMIN_CLIENT = "__admin_client"
"""The client id that may write to internal topics, as in Kafka."""
CURRENT_LEADER_SINCE = 10

SLICE_US = 20_000.0

_WITHOUT_MESSAGE = frozenset({ErrorCode.none, ErrorCode.not_leader_or_follower})
"""Error codes that need no message beside them."""


class _ProduceResult(NamedTuple):
    """The result for one partition; if there is a future `pending`, it decides the error."""

    requested: RequestedPartition
    error: ErrorCode
    message: str | None = None
    base_offset: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    append_time_ms: int | None = None
    replica: Replica | None = None
    pending: "asyncio.Future[ProduceStatus] | None" = None
    invalid_records: tuple[int, ...] = (0,)
    """With INVALID_RECORD: the numbers of these records; the producer may send the others again."""


class ProduceHandler:
    """Serves Produce."""

    def __init__(
        self,
        replicas: ReplicaManager,
        wall_clock_ms: Callable[[], int],
        verifier: TransactionVerifier,
    ) -> None:
        self._replicas = replicas
        self._wall_clock_ms = wall_clock_ms
        self._verification = ProduceVerification(replicas, verifier, wall_clock_ms)

    def handle(self, request: Any, context: RequestContext) -> Any:
        """Return the response, an awaitable of it if it has to wait, or None (acks=0).

        Raises Unanswerable when an acks=0 request fails.
        """
        partitions = requested_partitions(request, self._replicas.topic_name)
        if request.transactional_id is not None:
            batches = transactional_batches(partitions)
            begun = self._verification.begin(batches, request.__version__)
            if begun.guards:
                return ExclusiveResponse(self._verify(request, partitions, begun, context))
            partitions = after_verification(partitions, begun)
        return self._append_all(request, partitions, context)

    async def _verify(
        self,
        request: Any,
        partitions: Sequence[RequestedPartition],
        begun: Verified,
        context: RequestContext,
    ) -> Any:
        verified = await self._verification.finish(
            begun,
            transactional_batches(partitions),
            request.transactional_id,
            request.__version__,
            request.timeout.total_seconds(),
        )
        response = self._append_all(request, after_verification(partitions, verified), context)
        if isinstance(response, ExclusiveResponse):
            response = response.response
        return await response if isinstance(response, Awaitable) else response

    def _append_all(
        self, request: Any, partitions: Sequence[RequestedPartition], context: RequestContext
    ) -> Any:
        """See `handle`."""
        if sum(map(cost_us, partitions)) > SLICE_US:
            return ExclusiveResponse(self._append_in_slices(request, partitions, context))
        acks = int(request.acks)
        results = [self._produce(request, each, acks, context) for each in partitions]
        return self._respond_or_wait(request, results, context)

    async def _append_in_slices(
        self, request: Any, partitions: Sequence[RequestedPartition], context: RequestContext
    ) -> Any:
        results, spent_us = [], 0.0
        for requested in partitions:
            if spent_us > SLICE_US:
                spent_us = 0.0
                await asyncio.sleep(0)
            results.append(self._produce(request, requested, int(request.acks), context))
            spent_us += cost_us(requested)
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

    def _produce(
        self, request: Any, requested: RequestedPartition, acks: int, context: RequestContext
    ) -> _ProduceResult:
        if acks not in (-1, 0, 1):
            return _ProduceResult(requested, ErrorCode.invalid_required_acks)
        if requested.partition is None:
            return _ProduceResult(requested, ErrorCode.unknown_topic_id)
        if requested.partition.topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT:
            message = "only coordinators write to internal topics"
            return _ProduceResult(requested, ErrorCode.invalid_topic_exception, message)
        if requested.refused is not None:
            return _ProduceResult(requested, *requested.refused)
        in_transactions = request.transactional_id is not None
        invalid = invalid_batch(requested.records or b"", request.__version__, in_transactions)
        if invalid is not None:
            return _ProduceResult(requested, *invalid)
        replica = self._replicas.find(requested.partition)
        if replica is None:
            error = self._replicas.missing_replica_error(requested.partition)
            return _ProduceResult(requested, error)
        if request.__version__ >= TOPIC_IDS_SINCE and replica.topic_id != requested.topic_key:
            # A deleted topic of the same name is not removed here yet.
            return _ProduceResult(requested, ErrorCode.unknown_topic_id)
        return self._append(requested, replica, acks)

    def _append(self, requested: RequestedPartition, replica: Replica, acks: int) -> _ProduceResult:
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
            appended = replica.append(records, guard=requested.guard)
            if appended.duplicate:
                append_time_ms = _append_time_of_first(replica, appended)
        except (log_errors.LogError, OSError) as error:
            result = _ProduceResult(requested, append_error(error), str(error))
            if isinstance(error, log_errors.KeylessRecords):
                result = result._replace(invalid_records=error.numbers)
            return result
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
            return result._replace(error=ACK_ERRORS[ack])
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
        if result.error is ErrorCode.invalid_record:
            row["record_errors"] = [
                {"batch_index": number, "batch_index_error_message": result.message}
                for number in result.invalid_records
            ]
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


def _final(result: _ProduceResult) -> _ProduceResult:
    """The result with its ack, or with REQUEST_TIMED_OUT if the ack is not known yet."""
    if result.pending is None:
        return result
    if not result.pending.done():
        assert result.replica is not None
        result.replica.stop_waiting(result.pending)
        return result._replace(error=ErrorCode.request_timed_out)
    return result._replace(error=ACK_ERRORS[result.pending.result()])


def _append_time_of_first(replica: Replica, first: LogAppendInfo) -> int | None:
    """When the first of two equal batches was appended, if it has LogAppendTime."""
    if first.base_offset < replica.log.start_offset:
        return None
    header = read_header(replica.log.read(first.base_offset, 1, replica.log.end_offset))
    return header.max_timestamp if header.has_append_time else None
