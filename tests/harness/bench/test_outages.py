"""The parts of outage measurements that need no cluster."""

import pytest

from harness.bench.clients.probe import Probe, longest_gap_ms
from harness.bench.outages import WATCHED, topics_of

MS = 1_000_000


@pytest.mark.parametrize("partitions", [1, 6, 7, 100, 1006, 1007, 10_000])
def test_topics_have_the_asked_number_of_partitions(partitions: int) -> None:
    """No topic is empty or too large; the watched topic comes last."""
    topics = topics_of(partitions)
    assert sum(topics.values()) == partitions
    assert all(0 < count <= 1000 for count in topics.values())
    assert list(topics)[-1] == WATCHED


def test_gap_is_the_longest_one_that_ends_after_the_outage_began() -> None:
    """A gap before the outage is the machine's; a gap over its beginning is the outage's."""
    times = [0, 500 * MS, 510 * MS, 530 * MS, 540 * MS]
    assert longest_gap_ms(times, 505 * MS) == 20.0
    assert longest_gap_ms(times, 0) == 500.0
    assert longest_gap_ms(times, 540 * MS) == 0.0
    assert longest_gap_ms([7], 0) == 0.0


def test_late_answer_to_an_earlier_send_does_not_end_the_outage() -> None:
    """A send before the node's end may be answered after it."""
    probe = Probe({}, "topic", [0, 1])
    probe.answered(0, sent_ns=5, answered_ns=20)
    probe.answered(1, sent_ns=15, answered_ns=20)
    assert not probe.everywhere_since(10)
    probe.answered(0, sent_ns=11, answered_ns=30)
    assert probe.everywhere_since(10)
    assert probe.acked_ns == {0: [20, 30], 1: [20]}
