"""The rows of a producer's transactions."""

import pytest

from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.payload import peek_value
from harness.workloads.clients.transaction_sends import VANISHED
from nodes.ids import TopicPartition
from tests.support.clients.recorded import Recorded

SEND = ("type", "complete_ns", "partition", "value", "offset", "txn", "transactional_id", "error")


def test_sends_get_the_outcome_of_their_transaction_when_it_has_ended() -> None:
    """Before that they have no row, although a broker has appended them."""
    seen = Recorded()
    sends = seen.transactions()
    txn = sends.begin()
    values = [sends.send(partition)[0] for partition in (0, 1)]
    for offset, value in enumerate(values):
        sends.appended(value, offset, node=3)
    assert seen.writer.of("send", *SEND) == []
    sends.committed(Outcome.OK, 4)
    (ended_ns,) = {row[0] for row in seen.writer.of("send", "complete_ns")}
    assert seen.writer.of("send", *SEND) == [
        ("ok", ended_ns, 0, values[0], 0, txn, "id", None),
        ("ok", ended_ns, 1, values[1], 1, txn, "id", None),
    ]
    ends = seen.writer.of("commit-transaction", "type", "txn", "transactional_id", "invoke_ns")
    assert ends == [("ok", txn, "id", 4)]
    assert (seen.tally.sent, seen.tally.acked, sends.transaction) == (2, 2, None)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_outcome_of_a_commit_is_that_of_its_sends(outcome: Outcome) -> None:
    """Also an unknown one."""
    seen = Recorded()
    sends = seen.transactions()
    sends.begin()
    sends.send(0)
    sends.committed(outcome, 4, error="WHY")
    assert seen.writer.of("send", "type", "error") == [(outcome.value, "WHY")]
    assert seen.writer.of("commit-transaction", "type", "error") == [(outcome.value, "WHY")]


@pytest.mark.parametrize("outcome", list(Outcome))
def test_sends_surely_failed_if_only_an_abort_was_asked_for(outcome: Outcome) -> None:
    """Whatever became of the abort: nobody can commit the transaction."""
    seen = Recorded()
    sends = seen.transactions()
    sends.begin()
    sends.send(0)
    sends.aborted(outcome, 4)
    assert seen.writer.of("send", "type") == [("fail",)]
    assert seen.writer.of("abort-transaction", "type") == [(outcome.value,)]


def test_transaction_that_its_producer_leaves_has_no_end_row() -> None:
    """Its sends surely failed."""
    seen = Recorded()
    sends = seen.transactions()
    txn = sends.begin()
    sends.send(0)
    sends.left_open()
    assert seen.writer.of("send", "type", "txn", "error") == [("fail", txn, VANISHED)]
    assert seen.writer.of("abort-transaction", "op") == []


def test_transactions_have_different_numbers_and_values() -> None:
    """Each number is unique in the run, as the client's number is."""
    sends, other = Recorded().transactions(), Recorded(client=2).transactions()
    numbers, values = [], []
    for each in (sends, sends, other):
        numbers.append(each.begin())
        value, payload = each.send(0)
        assert peek_value(payload) == value
        values.append(value)
        each.committed(Outcome.OK, 4)
    assert (len(set(numbers)), len(set(values))) == (3, 3)


def test_copy_names_its_record_and_the_group_that_read_it() -> None:
    """A send that copies nothing names no group."""
    seen = Recorded()
    sends = seen.transactions(group="g")
    sends.begin()
    sends.send(0, copies=77)
    sends.send(0)
    sends.committed(Outcome.OK, 4)
    assert seen.writer.of("send", "copies", "group") == [(77, "g"), (None, None)]


@pytest.mark.parametrize(("outcome", "known"), [(Outcome.OK, True), (Outcome.INFO, False)])
def test_offsets_in_a_transaction_have_its_outcome(outcome: Outcome, known: bool) -> None:
    """Those of an unknown outcome have no end: they may count later."""
    seen = Recorded()
    sends = seen.transactions()
    txn = sends.begin()
    sends.offsets("g", 5, {TopicPartition("in", 0): 10, TopicPartition("more", 0): 20})
    sends.committed(outcome, 4)
    columns = ("type", "topic", "partition", "offset", "txn", "group", "generation")
    kind = outcome.value
    assert seen.writer.of("offset-commit", *columns) == [
        (kind, "in", 0, 10, txn, "g", 5),
        (kind, "more", 0, 20, txn, "g", 5),
    ]
    ends = seen.writer.of("offset-commit", "complete_ns")
    assert all((end is not None) == known for (end,) in ends)


def test_init_producer_is_a_row_with_its_transactional_id() -> None:
    """From its end on, older producers are fenced."""
    seen = Recorded()
    sends = seen.transactions("mine")
    sends.initialized(Outcome.OK, 4)
    columns = ("type", "transactional_id", "txn", "invoke_ns")
    assert seen.writer.of("init-producer", *columns) == [("ok", "mine", None, 4)]
