"""What librdkafka's answers say of a transaction."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.workloads.clients.access import OPEN
from harness.workloads.further.librdkafka.producing import TransactionalProducer, returned
from harness.workloads.further.librdkafka.subscribed import generation_of, without_member
from harness.workloads.further.rules import Patience
from harness.workloads.further.threads.library import Broken, NotWritten, Written
from nodes.ids import TopicPartition
from tests.support.clients.recorded import Recorded
from tests.support.clients.workloads import NOWHERE

RETRIABLE = KafkaException(KafkaError(KafkaError._TIMED_OUT, "late", retriable=True))
ABORTABLE = KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE, "no", txn_requires_abort=True))
FATAL = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


class Answers:
    """librdkafka, whose calls end in these ways, one after the other."""

    def __init__(self, answers: Sequence[Exception | None]) -> None:
        self._answers = list(answers)
        self.returns = threading.Event()

    def _answer(self, timeout_s: float) -> int:
        if (answer := self._answers.pop(0)) is not None:
            raise answer
        return 0

    init_transactions = commit_transaction = abort_transaction = flush = _answer

    def begin_transaction(self) -> None:
        """Always possible."""

    def produce(self, topic: str, payload: bytes, *, partition: int) -> None:
        """Take a record."""

    def send_offsets_to_transaction(
        self, positions: object, member: object, timeout_s: float
    ) -> None:
        """Never return, as librdkafka when the coordinator of the group was fenced."""
        self.returns.wait(10.0)

    def purge(self) -> None:
        """Forget all records."""


def producer(answers: Sequence[Exception | None]) -> tuple[TransactionalProducer, Recorded]:
    """A producer with these answers, after the stop: it repeats nothing without end."""
    seen, stop = Recorded(), threading.Event()
    if answers[-1] is RETRIABLE:
        stop.set()
    made = TransactionalProducer(
        NOWHERE,
        OPEN,
        seen.transactions(),
        timeout_ms=1000,
        patience=Patience(stop, 0.0, time.monotonic),
    )
    told: Any = Answers(answers)
    made._producer = told
    return made, seen


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([None], "ok"),
        ([RETRIABLE, None], "ok"),
        ([RETRIABLE], "info"),
        ([FATAL], "info"),
        ([ABORTABLE], "info"),
    ],
)
def test_commit_with_an_error_is_of_unknown_outcome(
    answers: Sequence[Exception | None], outcome: str
) -> None:
    """An earlier attempt, of which librdkafka says nothing, may have counted."""
    made, seen = producer(answers)
    made.begin()
    assert made.commit() == (outcome == "ok")
    assert seen.writer.of("commit-transaction", "type") == [(outcome,)]


@pytest.mark.parametrize("answers", [[None], [FATAL], [RETRIABLE]])
def test_transaction_that_is_only_aborted_surely_failed(
    answers: Sequence[Exception | None],
) -> None:
    """Whatever is answered to the abort."""
    made, seen = producer([None, *answers])
    made.begin()
    made.write([Written("t", 0, made._sends.send(0)[1])])
    assert made.abort() == (answers == [None])
    assert seen.writer.of("send", "type") == [("fail",)]


@pytest.mark.parametrize(("error", "raised"), [(FATAL, Broken), (SystemError("x"), Broken)])
def test_producer_that_breaks_while_it_writes_cannot_go_on(
    error: Exception, raised: type[Exception]
) -> None:
    """The transaction is left open, and its sends surely failed."""
    made, seen = producer([error])
    made.begin()
    with pytest.raises(raised):
        made.write([Written("t", 0, made._sends.send(0)[1])])
    made.close()
    assert seen.writer.of("send", "type") == [("fail",)]
    assert seen.writer.of("end", "client") == [(1,)]


def test_record_that_was_not_delivered_makes_the_transaction_one_to_abort() -> None:
    """A commit without it would be torn."""
    made, _ = producer([None])
    made.begin()
    _, payload = made._sends.send(0)

    class Delivered:
        def value(self) -> bytes:
            return payload

    message: Any = Delivered()
    made._delivered(KafkaError(KafkaError._MSG_TIMED_OUT), message)
    with pytest.raises(NotWritten, match="_MSG_TIMED_OUT"):
        made.write([])


def test_producer_whose_call_hangs_is_left_behind() -> None:
    """The transaction is left open; after the stop nothing waits for the call."""
    made, seen = producer([RETRIABLE])
    made.begin()
    made._sends.send(0)
    with pytest.raises(Broken, match="HANGS"):
        made.send_offsets({TopicPartition("orders", 0): 1}, "g", None)
    made.close()
    assert seen.writer.of("end", "client") == [(1,)]
    told: Any = made._producer
    told.returns.set()  # for its thread


def test_call_that_takes_too_long_hangs() -> None:
    """Also before the stop."""
    never, going_on = threading.Event(), Patience(threading.Event(), 0.0, time.monotonic)
    with pytest.raises(Broken, match="HANGS"):
        returned(never.wait, 0.0, going_on)
    never.set()


def test_call_that_returns_or_raises_does_so_in_its_caller() -> None:
    """An error of librdkafka says what to do next."""

    def refused() -> None:
        raise ABORTABLE

    going_on = Patience(threading.Event(), 0.0, time.monotonic)
    returned(bool, 60.0, going_on)
    with pytest.raises(KafkaException, match="INVALID_TXN_STATE"):
        returned(refused, 60.0, going_on)


def test_group_metadata_tells_the_generation() -> None:
    """The one without a member has none."""
    assert generation_of(b"CGMDv2:\x07\0\0\0g\0m\0\1") == 7
    assert without_member("g") == b"CGMDv2:\xff\xff\xff\xffg\0\0\1"
