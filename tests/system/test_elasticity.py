"""Two brokers join, one leaves, one is killed meanwhile; clients write all the time."""

from pathlib import Path

import pytest

from nodes.ids import TopicPartition
from tests.support.require import require
from tests.support.tiers import at_turn
from tests.tools.elasticity import WORTH, Copies, difference_after_drain, least_bytes, run


def test_what_has_to_move_at_least() -> None:
    """Everything of a broker that leaves, and the smallest beyond the share of who has too many."""
    names = [TopicPartition("t", number) for number in range(4)]
    sizes = dict(zip(names, (40, 10, 30, 20), strict=True))
    assert least_bytes(dict.fromkeys(names, (1,)), [1, 2], sizes) == 30
    assert least_bytes(dict.fromkeys(names, (1,)), [2], sizes) == 100
    assert least_bytes(dict.fromkeys(names, (1, 2)), [1, 2], sizes) == 0


def test_what_copies_cost() -> None:
    """A copy costs what the partition held when its move was ordered, and again when made again;
    what was there before costs nothing.
    """
    one, two = TopicPartition("t", 1), TopicPartition("t", 2)
    copies = Copies([(1, one), (1, two)])
    copies.order({one: 10, two: 20})
    copies.see([(1, one), (1, two), (2, one)])
    copies.see([(1, two), (2, one)])
    assert copies.bytes == 10
    copies.order({one: 11, two: 25})
    copies.see([(1, one), (1, two), (2, one)])
    copies.see([(1, two), (2, one)])
    copies.see([(1, one), (1, two), (2, one), (2, two)])
    assert copies.bytes == 10 + 11 + 11 + 25


def test_how_even_the_replicas_of_one_broker_can_make_it() -> None:
    """None can move to broker 3: it has one of each partition."""
    before = {TopicPartition("t", number): (2, 3) for number in range(3)}
    assert difference_after_drain(before, [3, 4, 5]) == 2
    assert difference_after_drain(before, [3, 4]) == 0


@pytest.mark.slow
@at_turn(1, 2, "system/test_administration.py::test_detached_cluster_is_administered_by_its_name")
def test_brokers_come_and_go_under_load(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, no partition has fewer replicas, all brokers end with equally
    many within one, and hardly more is copied than has to be.
    """
    require("root", "netns")
    said: list[str] = []
    outcome, result = run(
        tmp_path / "store",
        partitions=12,
        warmup_s=4,
        value_bytes=2048,
        rate_per_s=100,
        say=said.append,
    )
    assert outcome.error is None, (outcome.failed_phase, outcome.error, said)
    assert outcome.verdict is not None
    assert result.moving_when_killed > 0
    assert result.verdict == "VALID", outcome.verdict
    assert sorted(result.replicas) == [3, 4, 5, 6]
    assert result.balanced, result.replicas
    assert max(result.leaders.values()) - min(result.leaders.values()) <= 1, result.leaders
    assert result.replication_factors == {3}
    assert result.least_bytes > 0
    assert result.ratio <= WORTH, (result.moved_bytes, result.least_bytes)
