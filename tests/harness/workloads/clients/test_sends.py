"""What a producer's sends become in the record."""

import pytest

from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.payload import peek_value
from tests.support.clients.recorded import CODEC, Recorded

COLUMNS = ("type", "invoke_ns", "complete_ns", "partition", "value", "offset", "acks", "error")


def test_a_send_is_pending_until_it_has_an_outcome() -> None:
    """Its value is in its payload; times, place and outcome are in its row; it is counted."""
    seen = Recorded()
    sends = seen.sends()
    value, payload = sends.begin(3)
    assert CODEC.decode(payload) == (value, None)
    assert peek_value(payload) == value
    assert (sends.pending, sends.in_flight, value in sends) == (1, {3: 1}, True)
    sends.end(value, Outcome.OK, at_ns=100, offset=7)
    assert (sends.pending, sends.in_flight, value in sends) == (0, {3: 0}, False)
    assert seen.writer.of("send", *COLUMNS) == [("ok", 1, 100, 3, value, 7, -1, None)]
    assert (seen.tally.sent, seen.tally.acked, list(seen.tally.latencies_ns)) == (1, 1, [99])


def test_values_are_never_repeated() -> None:
    """Each send has one of its own."""
    sends = Recorded().sends()
    assert len({sends.begin(0)[0] for _ in range(100)}) == 100


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.INFO])
def test_what_went_wrong_is_named_and_counted(outcome: Outcome) -> None:
    """The error is in the row, and the last one on display."""
    seen = Recorded()
    sends = seen.sends()
    sends.end(sends.begin(0)[0], outcome, at_ns=5, error="WHY")
    assert seen.writer.of("send", "type", "complete_ns", "error") == [(outcome.value, 5, "WHY")]
    assert (seen.tally.failed, seen.tally.info) == ((1, 0) if outcome is Outcome.FAIL else (0, 1))
    assert seen.tally.last_error == "WHY"


def test_the_broker_that_answered_is_named() -> None:
    """Where a library tells which one it was."""
    seen = Recorded()
    sends = seen.sends()
    sends.end(sends.begin(0)[0], Outcome.OK, at_ns=5, offset=7, node=2)
    assert seen.writer.of("send", "offset", "node") == [(7, 2)]


def test_an_unanswered_send_has_no_offset() -> None:
    """For acks=0 no broker said one, whatever a library makes up."""
    seen = Recorded(acks=0)
    sends = seen.sends()
    sends.end(sends.begin(0)[0], Outcome.OK, at_ns=5, offset=7)
    assert seen.writer.of("send", "offset", "acks") == [(None, 0)]


def test_what_is_abandoned_may_happen_yet_and_is_recorded_once() -> None:
    """Without an outcome at the end it is `info` without completion; a late one is not heard."""
    seen = Recorded()
    sends = seen.sends()
    value, _ = sends.begin(0)
    sends.abandon()
    sends.end(value, Outcome.OK, at_ns=5, offset=1)
    assert seen.writer.of("send", "type", "complete_ns", "error") == [("info", None, "unfinished")]
    assert (sends.pending, seen.tally.info, seen.tally.acked) == (0, 1, 0)
