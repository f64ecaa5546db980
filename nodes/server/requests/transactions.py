"""The requests about transactions: of producers, of other brokers, and of administrators."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from nodes.coordinators.machine import Answer, ProducerStamp
from nodes.coordinators.partitioning import partition_for
from nodes.coordinators.patterns.syntax import PatternError
from nodes.coordinators.transactions.coordinator import TransactionCoordinator
from nodes.coordinators.transactions.queries import read_filter
from nodes.coordinators.transactions.state import (
    EPOCH_BUMP_SINCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
)
from nodes.ids import TopicPartition
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.shard import Access, Operation
from nodes.server.coordinators.transactions import Transactions
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

FENCED_SINCE: Final = {22: 4, 24: 2, 25: 2, 26: 2}
"""By api key: clients of older versions know INVALID_PRODUCER_EPOCH instead (KIP-588)."""
BATCHED_SINCE: Final = 4
"""From this version on, AddPartitionsToTxn comes from brokers, for several transactions."""
EPOCH_BUMP_END_SINCE: Final = 5
"""The first version of EndTxn of transaction.version 2."""

_NOBODY: Final = {"producer_id": NO_PRODUCER_ID, "producer_epoch": NO_PRODUCER_EPOCH}
_MS: Final = timedelta(milliseconds=1)
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]
Errors = dict[TopicPartition, ErrorCode]


class TransactionHandler:
    """See the module. `create_topic` asks for an internal topic that does not exist yet."""

    def __init__(
        self,
        transactions: Transactions,
        create_topic: Callable[[str], None],
    ) -> None:
        self._shards = transactions.shards
        self._completions = transactions.completions
        self._ids = transactions.ids
        self._image = transactions.image
        self._create_topic = create_topic

    async def init_producer_id(self, request: Any, context: RequestContext) -> Any:
        """InitProducerId; without a transactional id any broker gives an unused producer id."""
        name: str | None = request.transactional_id
        if name is None:
            producer_id = await self._ids.next_id()
            if producer_id is None:
                error = ErrorCode.coordinator_not_available
                return respond(request, error_code=error, **_NOBODY)
            return respond(request, producer_id=producer_id, producer_epoch=0)
        given = ProducerStamp(
            getattr(request, "producer_id", NO_PRODUCER_ID),
            getattr(request, "producer_epoch", NO_PRODUCER_EPOCH),
        )
        await self._ids.reserve()
        answer = await self._perform_next(
            name,
            lambda machine, token, now: machine.init_producer_id(
                token,
                now,
                transactional_id=name,
                timeout_ms=request.transaction_timeout // _MS,
                expected=None if given == (NO_PRODUCER_ID, NO_PRODUCER_EPOCH) else given,
            ),
        )
        return respond(request, **_for_version(request, answer))

    async def add_partitions(self, request: Any, context: RequestContext) -> Any:
        """AddPartitionsToTxn of a client, or (from version 4 on) of a broker."""
        if request.__version__ >= BATCHED_SINCE:
            each = (self._of_broker(transaction) for transaction in request.transactions)
            return respond(request, results_by_transaction=await asyncio.gather(*each))
        partitions = _partitions(request.v3_and_below_topics)
        refused = self._unknown(partitions) | _internal(partitions)
        if refused:
            errors = dict.fromkeys(partitions, ErrorCode.operation_not_attempted) | refused
        else:
            producer = ProducerStamp(
                request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
            )
            name = request.v3_and_below_transactional_id
            answer = await self._add(name, producer, partitions, client_version=0)
            errors = _for_all(partitions, _for_version(request, answer))
        return respond(request, results_by_topic_v3_and_below=_topic_results(errors))

    async def _of_broker(self, transaction: Any) -> Row:
        name = transaction.transactional_id
        producer = ProducerStamp(transaction.producer_id, transaction.producer_epoch)
        partitions = _partitions(transaction.topics)
        unknown = self._unknown(partitions)
        if unknown:
            errors = dict.fromkeys(partitions, ErrorCode.operation_not_attempted) | unknown
        elif transaction.verify_only:
            errors = await self._verify(name, producer, partitions)
        else:
            answer = await self._add(name, producer, partitions, client_version=EPOCH_BUMP_SINCE)
            errors = _for_all(partitions, answer)
        return {"transactional_id": name, "topic_results": _topic_results(errors)}

    async def _verify(
        self, name: str, producer: ProducerStamp, partitions: list[TopicPartition]
    ) -> Errors:
        answer = await self._perform_next(
            name,
            lambda machine, token, now: machine.verify_partitions(
                token, now, transactional_id=name, producer=producer, partitions=partitions
            ),
            Access.READ,
        )
        found: Errors | None = answer.get("errors")
        return _for_all(partitions, answer) if found is None else found

    async def add_offsets(self, request: Any, context: RequestContext) -> Any:
        """AddOffsetsToTxn: the group's partition of __consumer_offsets joins the transaction."""
        topic = self._image().topic(OFFSETS_TOPIC)
        if topic is None:
            self._create_topic(OFFSETS_TOPIC)
            return respond(request, error_code=ErrorCode.coordinator_not_available)
        partition = partition_for(request.group_id, len(topic.partitions))
        answer = await self._add(
            request.transactional_id,
            ProducerStamp(request.producer_id, request.producer_epoch),
            [TopicPartition(OFFSETS_TOPIC, partition)],
            client_version=0,
        )
        return respond(request, **_for_version(request, answer))

    async def end(self, request: Any, context: RequestContext) -> Any:
        """EndTxn: the answer does not wait for the markers."""
        raises = request.__version__ >= EPOCH_BUMP_END_SINCE
        answer = await self._perform_next(
            request.transactional_id,
            lambda machine, token, now: machine.end(
                token,
                now,
                transactional_id=request.transactional_id,
                producer=ProducerStamp(request.producer_id, request.producer_epoch),
                commit=request.committed,
                client_version=EPOCH_BUMP_SINCE if raises else 0,
            ),
        )
        return respond(request, **_for_version(request, answer))

    async def describe_transactions(self, request: Any, context: RequestContext) -> Any:
        """DescribeTransactions, of the ids whose coordinator this broker is."""
        rows = await asyncio.gather(*(self._describe(name) for name in request.transactional_ids))
        return respond(request, transaction_states=rows)

    async def _describe(self, name: str) -> Row:
        answer = await self._perform(
            name,
            lambda machine, token, now: machine.describe(token, now, transactional_id=name),
            Access.READ,
        )
        row = {"transactional_id": name, **answer}
        started_ms = row.pop("transaction_start_time_ms", None)
        timeout_ms = row.pop("transaction_timeout_ms", None)
        if started_ms is not None and timeout_ms is not None:
            row["transaction_start_time"] = _UNIX_EPOCH + started_ms * _MS
            row["transaction_timeout"] = timeout_ms * _MS
        return row

    async def list_transactions(self, request: Any, context: RequestContext) -> Any:
        """ListTransactions, of every coordinator of this broker."""
        try:
            wanted, unknown = read_filter(
                request.state_filters,
                request.producer_id_filters,
                getattr(request, "duration_filter", -1),
                getattr(request, "transactional_id_pattern", None),
            )
            answers = await asyncio.gather(
                *(
                    shard.perform(
                        lambda machine, token, now: machine.listing(token, now, wanted=wanted),
                        Access.READ,
                    )
                    for shard in self._shards.all()
                )
            )
        except PatternError:
            return respond(request, error_code=ErrorCode.invalid_regular_expression)
        except CoordinatorError as error:
            return respond(request, error_code=error.code)
        failed = next((each for each in answers if each["error_code"]), None)
        if failed is not None:
            return respond(request, error_code=failed["error_code"])
        rows = [row for answer in answers for row in answer["transaction_states"]]
        return respond(request, unknown_state_filters=unknown, transaction_states=rows)

    async def _add(
        self,
        name: str,
        producer: ProducerStamp,
        partitions: list[TopicPartition],
        *,
        client_version: int,
    ) -> Answer:
        return await self._perform_next(
            name,
            lambda machine, token, now: machine.add_partitions(
                token,
                now,
                transactional_id=name,
                producer=producer,
                partitions=partitions,
                client_version=client_version,
            ),
        )

    async def _perform_next(
        self,
        name: str,
        operation: Operation[TransactionCoordinator],
        access: Access = Access.WRITE,
    ) -> Answer:
        """As `_perform`, but after the end of an earlier transaction, if it does not take long."""
        await self._completions.wait(name)
        return await self._perform(name, operation, access)

    async def _perform(
        self,
        name: str,
        operation: Operation[TransactionCoordinator],
        access: Access = Access.WRITE,
    ) -> Answer:
        """Ask the coordinator of a transactional id; an answer has the error that it has not."""
        try:
            return await self._shards.perform(name, operation, access)
        except CoordinatorError as error:
            return {"error_code": error.code, **_NOBODY}

    def _unknown(self, partitions: Iterable[TopicPartition]) -> Errors:
        """The partitions that do not exist."""
        image = self._image()
        error = ErrorCode.unknown_topic_or_partition
        return {each: error for each in partitions if image.partition(*each) is None}


def _internal(partitions: Iterable[TopicPartition]) -> Errors:
    """The partitions of internal topics: no client writes to them, as in Kafka."""
    error = ErrorCode.topic_authorization_failed
    return {each: error for each in partitions if each.topic in INTERNAL_TOPICS}


def _for_version(request: Any, answer: Answer) -> Answer:
    """The answer with errors that the request's version knows."""
    fenced = answer["error_code"] is ErrorCode.producer_fenced
    if fenced and request.__version__ < FENCED_SINCE[request.__api_key__]:
        return {**answer, "error_code": ErrorCode.invalid_producer_epoch}
    return answer


def _for_all(partitions: Iterable[TopicPartition], answer: Answer) -> Errors:
    """The one error of an answer, for every partition."""
    error: ErrorCode = answer["error_code"]
    return dict.fromkeys(partitions, error)


def _partitions(topics: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, each) for topic in topics for each in topic.partitions]


def _topic_results(errors: Errors) -> list[Row]:
    by_topic: dict[str, list[Row]] = {}
    for (topic, partition), error in errors.items():
        row = {"partition_index": partition, "partition_error_code": error}
        by_topic.setdefault(topic, []).append(row)
    return [{"name": topic, "results_by_partition": rows} for topic, rows in by_topic.items()]
