"""Producers and consumers of a client program: what is recorded of what the program writes."""

import base64
from typing import Any

import pytest

from harness.workloads.clients.keyed_sends import Keys
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.outcomes import NotConnected, Outcome
from harness.workloads.clients.program import consumer as consumers
from harness.workloads.clients.program.consumer import RecordingConsumer, open_consumer
from harness.workloads.clients.program.process import ProgramFailed
from harness.workloads.clients.program.producer import (
    RecordingProducer,
    open_producer,
    outcome_of,
)
from harness.workloads.clients.program.protocol import Assigned, Event, Failure, Noted, Sent
from tests.support.clients.recorded import CODEC, Recorded
from tests.support.clients.scripted_program import FENCED, RETRY, ScriptedProgram
from tests.support.clients.workloads import NOWHERE

OPTIONS = ProducerOptions(
    bootstrap=NOWHERE, acks=-1, idempotence=True, linger_ms=2, message_timeout_ms=1_000
)


def producer(program: ScriptedProgram) -> tuple[RecordingProducer, Recorded]:
    """A producer of the program, and its rows."""
    seen, running = Recorded(), _any(program)
    return RecordingProducer(running, open_producer(OPTIONS), seen.sends()), seen


def consumer(program: ScriptedProgram) -> tuple[RecordingConsumer, Recorded]:
    """A consumer of the program, and its rows."""
    seen, running = Recorded(), _any(program)
    reads = seen.reads()
    return RecordingConsumer(running, open_consumer(OPTIONS, reads), reads), seen


def _any(program: ScriptedProgram) -> Any:
    return program


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (Failure(name="RecordTooLarge", definite=True), Outcome.FAIL),
        (Failure(name="INVALID_RECORD", code=87), Outcome.FAIL),
        (Failure(name="NOT_ENOUGH_REPLICAS", code=19), Outcome.INFO),
        (Failure(name="TimeoutException"), Outcome.INFO),
    ],
)
def test_send_failed_only_if_no_attempt_can_have_been_appended(
    failure: Failure, outcome: Outcome
) -> None:
    """By the program's word, or by an error that every attempt gets."""
    assert outcome_of(failure) is outcome


def test_sends_go_out_in_one_line_and_their_outcomes_are_recorded() -> None:
    """The numbers are the client's own; an offset that nobody knows is no error."""
    program = ScriptedProgram()
    made, seen = producer(program)
    for partition in (0, 1, 0):
        made.send(partition)
    program.waiting = [
        Sent(client=1, acked=[(1, 7), (2, None)], failed=[(3, RETRY)]),
        Noted(client=1, error="E"),
    ]
    made.poll(0.0)
    [(_, opened), (do, sent)] = program.asked
    assert (opened["acks"], opened["idempotence"], opened["bootstrap"]) == (-1, True, NOWHERE)
    assert do == "send"
    assert [(number, partition) for number, partition, _ in sent["records"]] == [
        (1, 0), (2, 1), (3, 0),
    ]  # fmt: skip
    rows = seen.writer.of("send", "value", "type", "offset", "error")
    assert rows == [
        (1 << 32 | 1, "ok", 7, None),
        (1 << 32 | 2, "ok", None, None),
        (1 << 32 | 3, "info", None, "REQUEST_TIMED_OUT"),
    ]
    assert (seen.tally.last_error, made.fatal) == ("E", None)


def keyed_producer(program: ScriptedProgram, delete_share: float) -> RecordingProducer:
    """A producer that writes one key, or deletes it."""
    keys = Keys(at_a_time=1, sends_each=100, delete_share=delete_share)
    return RecordingProducer(_any(program), open_producer(OPTIONS), Recorded().keyed_sends(keys))


def test_keys_and_deletions_go_out_as_the_fourth_value_and_a_null() -> None:
    """A record without a key has three values, as in version 1."""
    sent = []
    for delete_share in (0.0, 1.0):
        made = keyed_producer(program := ScriptedProgram(), delete_share)
        made.send(2)
        made.poll(0.0)
        sent += program.asked[-1][1]["records"]
    key = base64.b64encode(b"0").decode()
    payload = base64.b64encode(CODEC.encode(1, 1)).decode()
    assert sent == [(1, 2, payload, key), (1, 2, None, key)]
    made, _ = producer(program := ScriptedProgram())
    made.send(0)
    made.poll(0.0)
    assert program.asked[-1][1]["records"] == [(1, 0, payload)]


def test_program_of_version_1_gets_no_keys() -> None:
    """It would not know what the fourth value is."""
    made = keyed_producer(program := ScriptedProgram(protocol=1), 0.0)
    made.send(0)
    made.poll(0.0)
    [record] = program.asked[-1][1]["records"]
    assert len(record) == 3
    made = keyed_producer(ScriptedProgram(protocol=1), 1.0)
    with pytest.raises(AssertionError, match="no tombstones"):
        made.send(0)


def test_producer_that_can_only_close_is_replaced() -> None:
    """Sends without an outcome are unknown when it is closed."""
    program = ScriptedProgram()
    made, seen = producer(program)
    made.send(0)
    made.send(0)
    program.waiting = [Sent(client=1, failed=[(1, FENCED)])]
    made.poll(0.0)
    assert made.fatal == "PRODUCER_FENCED"
    made.close(0.0)
    assert program.commands()[-1] == "close"
    assert seen.writer.of("send", "type", "error") == [
        ("info", "PRODUCER_FENCED"),
        ("info", "unfinished"),
    ]
    assert len(seen.writer.of("end", "client")) == 1


def test_client_that_cannot_be_opened_is_tried_again() -> None:
    """It leaves no row: nothing was sent or read."""
    for make, do in ((producer, "open-producer"), (consumer, "open-consumer")):
        program = ScriptedProgram()
        program.answer(do, RETRY)
        with pytest.raises(NotConnected, match="REQUEST_TIMED_OUT"):
            make(program)


@pytest.mark.parametrize(
    ("make", "event"),
    [
        (producer, Assigned(client=1, positions={}, generation=1)),
        (consumer, Sent(client=1)),
    ],
)
def test_event_of_another_kind_of_client_ends_the_program(make: Any, event: Event) -> None:
    """It is a mistake of the program."""
    program = ScriptedProgram()
    made, _ = make(program)
    program.before("close", event)
    with pytest.raises(ProgramFailed, match="the client program wrote"):
        made.close() if make is consumer else made.close(0.0)


def test_consumer_reads_from_its_positions_and_records_what_it_gets() -> None:
    """A payload is decoded here, so that a program cannot get it wrong."""
    program = ScriptedProgram()
    made, seen = consumer(program)
    made.assign({0: 0})
    load = base64.b64encode(CODEC.encode(1, 9)).decode()
    program.answer("poll", {"records": [[0, 4, 2, load]]})
    assert made.poll(0.1) == 1
    assert program.asked[1:] == [
        ("assign", {"topic": "t", "positions": {0: 0}}),
        ("poll", {"timeout_ms": 100}),
    ]
    columns = ("partition", "offset", "value", "leader_epoch", "error")
    assert seen.writer.of("poll", *columns) == [(0, 4, 1 << 32 | 9, 2, None)]


def test_consumer_goes_back_when_the_log_was_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jump is recorded; another error moves nothing."""
    monkeypatch.setattr(consumers, "ERROR_PAUSE_S", 0.0)
    program = ScriptedProgram()
    made, seen = consumer(program)
    made.assign({0: 5_000, 1: 30})
    truncated = Failure(name="OFFSET_OUT_OF_RANGE", code=1, partitions=(0,))
    program.answer("poll", RETRY, truncated)
    program.answer("offsets", {"beginning": 10, "end": 2_000})
    assert [made.poll(0.0), made.poll(0.0)] == [0, 0]
    assert program.asked[-1] == ("assign", {"topic": "t", "positions": {0: 1_000, 1: 30}})
    jumps = seen.writer.of("assign", "partition", "offset", "error")
    assert jumps[2:] == [(0, 1_000, "OFFSET_OUT_OF_RANGE"), (1, 30, "OFFSET_OUT_OF_RANGE")]
