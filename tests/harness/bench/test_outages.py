"""What of an outage is decided without a cluster."""

import pytest

from harness.bench.outages import WATCHED, topics_of
from harness.bench.probe import longest_gap_ms

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
