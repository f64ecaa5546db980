"""The rows of a producer's sends."""

import pytest

from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.payload import peek_value
from tests.support.clients.recorded import CODEC, Recorded

COLUMNS = ("type", "invoke_ns", "complete_ns", "partition", "value", "offset", "acks", "error")


def test_send_is_pending_until_it_has_an_outcome() -> None:
    """Its value is in the payload, and its times, place and outcome in the row."""
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
def test_error_of_a_send_is_recorded_and_counted(outcome: Outcome) -> None:
    """The last error is shown with the counters."""
    seen = Recorded()
    sends = seen.sends()
    sends.end(sends.begin(0)[0], outcome, at_ns=5, error="WHY")
    assert seen.writer.of("send", "type", "complete_ns", "error") == [(outcome.value, 5, "WHY")]
    assert (seen.tally.failed, seen.tally.info) == ((1, 0) if outcome is Outcome.FAIL else (0, 1))
    assert seen.tally.last_error == "WHY"


def test_broker_that_answered_is_recorded() -> None:
    """Some libraries report it."""
    seen = Recorded()
    sends = seen.sends()
    sends.end(sends.begin(0)[0], Outcome.OK, at_ns=5, offset=7, node=2)
    assert seen.writer.of("send", "offset", "node") == [(7, 2)]


def test_send_without_acknowledgement_has_no_offset() -> None:
    """For acks=0 no broker reports one, whatever the library says."""
    seen = Recorded(acks=0)
    sends = seen.sends()
    sends.end(sends.begin(0)[0], Outcome.OK, at_ns=5, offset=7)
    assert seen.writer.of("send", "offset", "acks") == [(None, 0)]


def test_pending_send_at_the_end_is_info_and_recorded_once() -> None:
    """A later outcome is ignored."""
    seen = Recorded()
    sends = seen.sends()
    value, _ = sends.begin(0)
    sends.abandon()
    sends.end(value, Outcome.OK, at_ns=5, offset=1)
    assert seen.writer.of("send", "type", "complete_ns", "error") == [("info", None, "unfinished")]
    assert (sends.pending, seen.tally.info, seen.tally.acked) == (0, 1, 0)
