"""Verification of transactional batches between a producer and the log (KIP-890)."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.ids import TopicPartition
from nodes.log.transactions.markers import Marker
from nodes.server.requests.produce import ProduceHandler
from nodes.server.requests.verification import AskedTransaction, refusal_of
from nodes.wire.server import ExclusiveResponse
from nodes.wire.versions import fill
from tests.support.nodes import virtual_time
from tests.support.nodes.batches import batch
from tests.support.nodes.fetching import EPOCH, SOMEBODY, FetchBroker

PRODUCE = 0
P = 7
T0, T1 = TopicPartition("t0", 0), TopicPartition("t1", 0)
NONE = ErrorCode.none

Answer = Callable[[AskedTransaction], Awaitable[Mapping[TopicPartition, ErrorCode]]]


@dataclass
class Coordinator:
    """Answers each question by the next of `answers`; by default, that all is well."""

    answers: list[Answer | ErrorCode] = field(default_factory=list)
    asked: list[AskedTransaction] = field(default_factory=list)

    async def verify(self, asked: AskedTransaction) -> Mapping[TopicPartition, ErrorCode]:
        self.asked.append(asked)
        answer = self.answers.pop(0) if self.answers else NONE
        if isinstance(answer, ErrorCode):
            return dict.fromkeys(asked.partitions, answer)
        return await answer(asked)


class Producing:
    """A broker that leads t0 and t1, its coordinator, and a producer of transaction `x`."""

    def __init__(self, *answers: Answer | ErrorCode) -> None:
        self.broker = FetchBroker(2)
        self.coordinator = Coordinator(list(answers))
        hosted = cast(Any, self.broker.hosted)
        self.handler = ProduceHandler(hosted, lambda: 1000, self.coordinator)

    def start(
        self,
        *batches: bytes,
        version: int = 12,
        transactional_id: str | None = "x",
        timeout_s: float = 30,
    ) -> Any:
        """The handler's response to a batch for t0, and perhaps one for t1."""
        topics = [
            {"name": f"t{number}", "partition_data": [{"index": 0, "records": sent}]}
            for number, sent in enumerate(batches)
        ]
        request = fill(
            load_request_schema(PRODUCE, version),
            transactional_id=transactional_id,
            acks=1,
            timeout=timedelta(seconds=timeout_s),
            topic_data=topics,
        )
        return self.handler.handle(request, SOMEBODY)

    async def send(self, *batches: bytes, **values: Any) -> list[tuple[ErrorCode, int]]:
        """Error and base offset of each batch."""
        response = self.start(*batches, **values)
        if isinstance(response, ExclusiveResponse):
            response = await response.response
        parts = [topic.partition_responses[0] for topic in response.responses]
        return [(part.error_code, part.base_offset) for part in parts]

    def end(self, *, epoch: int = 0) -> None:
        """The coordinator aborts the transaction in t0."""
        marker = Marker(P, epoch, 0, committed=False)
        self.broker.replica(0).append_marker(marker, 1000, transaction_version=0)


def sent(
    sequence: int, *, epoch: int = 0, producer_id: int = P, transactional: bool = True
) -> bytes:
    """A batch of one record."""
    return batch(1, producer=(producer_id, epoch, sequence), transactional=transactional)


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test in virtual time."""
    virtual_time.run(test)


@pytest.mark.parametrize(("version", "adds"), [(11, False), (12, True)])
def test_the_first_batch_of_a_transaction_is_verified_and_the_next_is_not(
    version: int, adds: bool
) -> None:
    """Since v12 the question also adds the partitions."""

    async def test() -> None:
        producing = Producing()
        answers = await producing.send(sent(0), sent(0), version=version)
        assert answers == [(NONE, 0), (NONE, 0)]
        assert producing.coordinator.asked == [AskedTransaction("x", P, 0, (T0, T1), adds)]
        assert not isinstance(producing.start(sent(1), version=version), ExclusiveResponse)
        assert len(producing.coordinator.asked) == 1

    run(test())


@pytest.mark.parametrize(("version", "asked"), [(11, 0), (12, 1)])
def test_verification_may_be_turned_off_for_clients_that_add_partitions_themselves(
    version: int, asked: int
) -> None:
    """As in Kafka: newer clients leave it to the broker to add them."""

    async def test() -> None:
        producing = Producing()
        producing.broker.hosted.verifies_transactions = False
        answers = await producing.send(sent(0), version=version)
        assert answers == [(NONE, 0)]
        assert len(producing.coordinator.asked) == asked

    run(test())


def test_only_partitions_without_an_open_transaction_are_asked_for() -> None:
    """One of two here."""

    async def test() -> None:
        producing = Producing()
        await producing.send(sent(0))
        assert await producing.send(sent(1), sent(0)) == [(NONE, 1), (NONE, 0)]
        assert producing.coordinator.asked[1].partitions == (T1,)

    run(test())


def test_a_partition_that_is_not_in_the_transaction_gets_nothing() -> None:
    """The others do."""

    async def some(asked: AskedTransaction) -> Mapping[TopicPartition, ErrorCode]:
        return {T0: ErrorCode.invalid_txn_state}

    async def test() -> None:
        producing = Producing(some)
        answers = await producing.send(sent(0), sent(0))
        assert answers == [(ErrorCode.invalid_txn_state, -1), (NONE, 0)]
        assert producing.broker.replica(0).log.end_offset == 0

    run(test())


@pytest.mark.parametrize(
    ("error", "version", "seen"),
    [
        (ErrorCode.not_coordinator, 12, ErrorCode.not_enough_replicas),
        (ErrorCode.coordinator_not_available, 12, ErrorCode.not_enough_replicas),
        (ErrorCode.coordinator_load_in_progress, 12, ErrorCode.not_enough_replicas),
        (ErrorCode.network_exception, 12, ErrorCode.not_enough_replicas),
        (ErrorCode.concurrent_transactions, 11, ErrorCode.not_enough_replicas),
        (ErrorCode.producer_fenced, 12, ErrorCode.invalid_producer_epoch),
        (ErrorCode.invalid_producer_epoch, 12, ErrorCode.invalid_producer_epoch),
        (ErrorCode.transaction_abortable, 11, ErrorCode.transaction_abortable),
        (ErrorCode.transaction_abortable, 10, ErrorCode.invalid_txn_state),
        (ErrorCode.invalid_producer_id_mapping, 12, ErrorCode.invalid_producer_id_mapping),
    ],
)
def test_errors_of_the_coordinator_become_errors_of_a_produce(
    error: ErrorCode, version: int, seen: ErrorCode
) -> None:
    """Kafka's mapping."""
    assert refusal_of(error, version).error is seen

    async def test() -> None:
        assert await Producing(error).send(sent(0), version=version) == [(seen, -1)]

    run(test())


@pytest.mark.parametrize(
    ("version", "epoch", "seen"),
    [
        (11, 0, ErrorCode.invalid_txn_state),
        (11, 1, ErrorCode.invalid_producer_epoch),
        (12, 1, ErrorCode.invalid_producer_epoch),
    ],
)
def test_a_marker_during_the_verification_voids_it(
    version: int, epoch: int, seen: ErrorCode
) -> None:
    """The confirmation was of a transaction that has ended (KAFKA-14884)."""

    async def test() -> None:
        async def late(asked: AskedTransaction) -> Mapping[TopicPartition, ErrorCode]:
            producing.end(epoch=epoch)
            return {}

        producing = Producing(late)
        assert await producing.send(sent(0), version=version) == [(seen, -1)]
        assert producing.broker.replica(0).log.end_offset == 1

    run(test())


def test_the_marker_of_the_transaction_before_may_come_during_the_verification() -> None:
    """The coordinator lets the question wait for it. It has the epoch of the next transaction."""

    async def test() -> None:
        async def ending(asked: AskedTransaction) -> Mapping[TopicPartition, ErrorCode]:
            producing.end(epoch=1)
            return {}

        producing = Producing(NONE, ending)
        assert await producing.send(sent(0)) == [(NONE, 0)]
        assert await producing.send(sent(0, epoch=1)) == [(NONE, 2)]

    run(test())


def test_the_next_batch_in_flight_does_not_pass_the_first() -> None:
    """The first one's answer says: try again (KAFKA-14904)."""

    async def test() -> None:
        producing = Producing(ErrorCode.not_coordinator)
        assert await producing.send(sent(0)) == [(ErrorCode.not_enough_replicas, -1)]
        assert await producing.send(sent(1)) == [(ErrorCode.out_of_order_sequence_number, -1)]
        assert await producing.send(sent(0)) == [(NONE, 0)]
        assert await producing.send(sent(1)) == [(NONE, 1)]

    run(test())


def test_the_next_request_of_the_connection_waits_for_the_verification() -> None:
    """So batches in flight keep their order."""
    producing = Producing()

    async def test() -> None:
        response = producing.start(sent(0))
        assert isinstance(response, ExclusiveResponse)
        await response.response

    run(test())


def test_an_ending_transaction_is_asked_about_again_for_a_while() -> None:
    """Only where the broker adds the partitions."""

    async def test() -> None:
        concurrent = ErrorCode.concurrent_transactions
        producing = Producing(concurrent, concurrent)
        assert await producing.send(sent(0)) == [(NONE, 0)]
        assert len(producing.coordinator.asked) == 3
        producing = Producing(*[concurrent] * 100)
        assert await producing.send(sent(0)) == [(ErrorCode.not_enough_replicas, -1)]
        assert 4 <= len(producing.coordinator.asked) <= 8
        producing = Producing(concurrent)
        assert await producing.send(sent(0), version=11) == [(ErrorCode.not_enough_replicas, -1)]

    run(test())


def test_a_batch_that_was_fenced_while_it_waits_is_not_asked_about_again() -> None:
    """The end of the earlier transaction brought a new epoch."""

    async def test() -> None:
        async def ending(asked: AskedTransaction) -> Mapping[TopicPartition, ErrorCode]:
            producing.end(epoch=1)
            return {T0: ErrorCode.concurrent_transactions}

        producing = Producing(ending)
        assert await producing.send(sent(0)) == [(ErrorCode.invalid_producer_epoch, -1)]
        assert len(producing.coordinator.asked) == 1

    run(test())


def test_one_partition_is_refused_while_another_is_verified() -> None:
    """Each has its own answer."""

    async def test() -> None:
        producing = Producing()
        del producing.broker.hosted.replicas[T0]
        answers = await producing.send(sent(0), sent(0))
        assert answers == [(ErrorCode.unknown_topic_or_partition, -1), (NONE, 0)]
        producing = Producing()
        producing.broker.replica(0).log.append_marker(
            Marker(P, 1, 0, committed=True), EPOCH, 1000, transaction_version=2
        )
        answers = await producing.send(sent(0), sent(0))
        assert answers == [(ErrorCode.invalid_producer_epoch, -1), (NONE, 0)]

    run(test())


def test_a_coordinator_that_does_not_answer_ends_with_the_requests_time() -> None:
    """No client hangs."""

    async def never(asked: AskedTransaction) -> Mapping[TopicPartition, ErrorCode]:
        await asyncio.sleep(10**6)
        return {}

    async def test() -> None:
        producing = Producing(never)
        answer = await producing.send(sent(0), timeout_s=2)
        assert answer == [(ErrorCode.not_enough_replicas, -1)]
        assert asyncio.get_running_loop().time() == 2.0

    run(test())


def test_an_older_epoch_is_refused_without_a_question() -> None:
    """A newer one has written."""

    async def test() -> None:
        producing = Producing()
        await producing.send(sent(0, epoch=3))
        assert await producing.send(sent(1, epoch=2)) == [(ErrorCode.invalid_producer_epoch, -1)]
        assert len(producing.coordinator.asked) == 1

    run(test())


def test_batches_of_two_producers_are_refused() -> None:
    """One transaction has one producer."""

    async def test() -> None:
        producing = Producing()
        answers = await producing.send(sent(0), sent(0, producer_id=8))
        assert answers == [(ErrorCode.invalid_producer_id_mapping, -1)] * 2

    run(test())


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    """INVALID_TXN_STATE; without an open transaction it is appended."""

    async def test() -> None:
        producing = Producing()
        await producing.send(sent(0))
        outside = sent(1, transactional=False)
        assert await producing.send(outside) == [(ErrorCode.invalid_txn_state, -1)]
        producing.end()
        assert await producing.send(outside) == [(NONE, 2)]

    run(test())


def test_a_transactional_batch_needs_a_transactional_id() -> None:
    """Kafka's error."""

    async def test() -> None:
        answer = await Producing().send(sent(0), transactional_id=None)
        assert answer == [(ErrorCode.transactional_id_authorization_failed, -1)]

    run(test())


def test_a_broker_that_does_not_lead_asks_nobody() -> None:
    """Nor for a partition that it does not have."""

    async def test() -> None:
        producing = Producing()
        producing.broker.assign(0, leader=cast(Any, 2), epoch=6)
        del producing.broker.hosted.replicas[T1]
        assert await producing.send(sent(0), sent(0)) == [
            (ErrorCode.not_leader_or_follower, -1),
            (ErrorCode.unknown_topic_or_partition, -1),
        ]
        assert not producing.coordinator.asked

    run(test())


def test_a_leader_that_loses_its_partition_during_the_verification_appends_nothing() -> None:
    """The append looks again."""

    async def test() -> None:
        async def late(asked: AskedTransaction) -> Mapping[TopicPartition, ErrorCode]:
            producing.broker.assign(0, leader=cast(Any, 2), epoch=6)
            return {}

        producing = Producing(late)
        assert await producing.send(sent(0)) == [(ErrorCode.not_leader_or_follower, -1)]

    run(test())


def test_garbage_in_a_transaction_is_judged_as_outside_of_one() -> None:
    """It is not verified, and refused at the append."""

    async def test() -> None:
        producing = Producing()
        broken = bytearray(sent(0))
        broken[-1] ^= 1
        answers = await producing.send(bytes(broken), b"")
        assert answers == [(ErrorCode.corrupt_message, -1), (ErrorCode.invalid_record, -1)]

    run(test())
