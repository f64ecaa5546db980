"""What a program's answers say of a transaction."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from harness.workloads.clients.program.protocol import Failure, Sent
from harness.workloads.further.program.producing import TransactionalProducer
from harness.workloads.further.rules import Patience
from harness.workloads.further.threads.library import Broken, NotWritten, Written
from nodes.ids import TopicPartition
from tests.support.clients.recorded import Recorded
from tests.support.clients.scripted_program import (
    ABORT,
    DEFINITE,
    FENCED,
    RETRY,
    ScriptedProgram,
)

Answers = Sequence[Failure | None]


def producer(
    do: str = "", answers: Answers = (None,)
) -> tuple[TransactionalProducer, ScriptedProgram, Recorded]:
    """A producer whose program gives these answers. After the last one, if that may be repeated,
    patience is over."""
    program, seen, stop = ScriptedProgram(), Recorded(), threading.Event()
    program.answer(do, *answers)
    if answers[-1] is RETRY:
        stop.set()
    running: Any = program
    patience = Patience(stop, 0.0, time.monotonic)
    return TransactionalProducer(running, {}, seen.transactions(), patience), program, seen


ENDS = [
    ([None], "ok"),
    ([RETRY, None], "ok"),
    ([RETRY], "info"),
    ([FENCED], "info"),
    ([ABORT], "info"),
    ([DEFINITE], "fail"),
    ([RETRY, DEFINITE], "info"),
]


@pytest.mark.parametrize(("answers", "outcome"), ENDS)
def test_commit_with_an_error_is_unknown_unless_the_only_answer_is_definite(
    answers: Answers, outcome: str
) -> None:
    """An earlier attempt may have counted."""
    made, _, seen = producer("commit-transaction", answers)
    made.begin()
    made._sends.send(0)
    if answers == [RETRY, DEFINITE]:
        made.patience = Patience(threading.Event(), 0.0, time.monotonic)
    assert made.commit() == (outcome == "ok")
    assert seen.writer.of("commit-transaction", "type") == [(outcome,)]
    assert seen.writer.of("send", "type") == [(outcome,)]


@pytest.mark.parametrize("answers", [[None], [FENCED], [RETRY]])
def test_transaction_that_is_only_aborted_surely_failed(answers: Answers) -> None:
    """Whatever is answered to the abort."""
    made, _, seen = producer("abort-transaction", answers)
    made.begin()
    made._sends.send(0)
    assert made.abort() == (answers == [None])
    assert seen.writer.of("send", "type") == [("fail",)]


@pytest.mark.parametrize(("answers", "outcome"), ENDS)
def test_taking_over_an_id_is_recorded(answers: Answers, outcome: str) -> None:
    """From an answer on, older producers are fenced."""
    made, _, seen = producer("init-transactions", answers)
    assert made.begin_producer() == (outcome == "ok")
    assert seen.writer.of("init-producer", "type") == [(outcome,)]


def test_producer_that_could_not_be_opened_does_not_begin() -> None:
    """Another one tries again."""
    made, program, _ = producer("open-producer", [RETRY])
    assert not made.begin_producer()
    assert program.commands() == ["open-producer"]


def test_write_waits_for_all_outcomes() -> None:
    """They may come after the answer to `flush`."""
    made, program, seen = producer()
    made.begin()
    records = [Written("t", 0, made._sends.send(0)[1]), Written("t", 1, made._sends.send(1)[1])]
    program.before("flush", Sent(client=1, acked=[(2, 8)]))
    program.waiting = [Sent(client=1, acked=[(1, 7)])]
    made.write(records)
    made.commit()
    assert program.commands()[1:] == ["begin-transaction", "send", "flush", "commit-transaction"]
    assert seen.writer.of("send", "offset") == [(7,), (8,)]


def test_records_of_several_topics_go_out_in_a_line_for_each() -> None:
    """They are of one transaction."""
    made, program, seen = producer()
    made.begin()
    sends = made._sends
    records = [Written("t", 0, sends.send(0)[1]), Written("u", 3, sends.send(3, topic="u")[1])]
    program.before("flush", Sent(client=1, acked=[(1, 7), (2, 8)]))
    made.write(records)
    made.commit()
    sent = [values for do, values in program.asked if do == "send"]
    assert [(each["topic"], len(each["records"])) for each in sent] == [("t", 1), ("u", 1)]
    rows = seen.writer.of("send", "topic", "partition", "offset", "txn")
    assert rows == [("t", 0, 7, rows[0][3]), ("u", 3, 8, rows[0][3])]


@pytest.mark.parametrize(
    ("failure", "raised"), [(ABORT, NotWritten), (RETRY, NotWritten), (FENCED, Broken)]
)
def test_record_that_was_not_written_makes_the_transaction_one_to_abort(
    failure: Failure, raised: type[Exception]
) -> None:
    """A commit without it would be torn. A fenced producer can only close."""
    made, program, _ = producer()
    made.begin()
    program.before("flush", Sent(client=1, failed=[(1, failure)]))
    with pytest.raises(raised, match=failure.name):
        made.write([Written("t", 0, made._sends.send(0)[1])])


@pytest.mark.parametrize(("failure", "raised"), [(ABORT, NotWritten), (FENCED, Broken)])
def test_offsets_that_were_refused_are_not_committed(
    failure: Failure, raised: type[Exception]
) -> None:
    """The member's metadata goes back to the program as it came."""
    made, program, _ = producer("send-offsets", [failure])
    made.begin()
    with pytest.raises(raised):
        made.send_offsets({TopicPartition("in", 0): 5}, "g", {"any": "thing"})
    values = {"topic": "in", "offsets": {0: 5}, "group": "g", "metadata": {"any": "thing"}}
    assert program.asked[-1] == ("send-offsets", values)
