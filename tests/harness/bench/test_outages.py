"""What of an outage is decided without a cluster."""

import pytest

from harness.bench.clients.probe import Probe, longest_gap_ms
from harness.bench.outages import WATCHED, topics_of

MS = 1_000_000


@pytest.mark.parametrize("partitions", [1, 6, 7, 100, 1006, 1007, 10_000])
def test_topics_add_up(partitions: int) -> None:
    """Watched and ballast partitions are as many as were asked for, no topic is too large."""
    topics = topics_of(partitions)
    assert sum(topics.values()) == partitions
    assert all(0 < count <= 1000 for count in topics.values())
    assert list(topics)[-1] == WATCHED


def test_gap_is_the_longest_that_ends_after_the_outage() -> None:
    """A gap before it is the machine's; one that spans its beginning is the outage's."""
    times = [0, 500 * MS, 510 * MS, 530 * MS, 540 * MS]
    assert longest_gap_ms(times, 505 * MS) == 20.0
    assert longest_gap_ms(times, 0) == 500.0
    assert longest_gap_ms(times, 540 * MS) == 0.0
    assert longest_gap_ms([7], 0) == 0.0


def test_an_answer_on_its_way_is_no_service() -> None:
    """What was sent before a node's end and answered after it does not end the outage."""
    probe = Probe({}, "topic", [0, 1])
    probe.answered(0, sent_ns=5, answered_ns=20)
    probe.answered(1, sent_ns=15, answered_ns=20)
    assert not probe.everywhere_since(10)
    probe.answered(0, sent_ns=11, answered_ns=30)
    assert probe.everywhere_since(10)
    assert probe.acked_ns == {0: [20, 30], 1: [20]}
