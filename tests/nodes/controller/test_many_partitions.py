"""A broker with many partitions: their changes are decided in portions."""

from collections.abc import Iterator

import pytest

from nodes.controller import controller, elections
from nodes.ids import NO_NODE
from nodes.metadata.records import PartitionChangeRecord
from tests.support.nodes.controller_cluster import SESSION_MS, Cluster, node

AT_ONCE, PARTITIONS = 4, 10


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Three brokers, which are in sync for more partitions than one pass may change."""
    monkeypatch.setattr(elections, "CHANGES_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(controller, "CHANGES_AT_ONCE", AT_ONCE)
    cluster = Cluster(brokers=3)
    cluster.create(partitions=PARTITIONS, replication_factor=3)
    yield cluster
    for _, partition in cluster.image.partitions():
        assert partition.leader == NO_NODE or partition.leader in partition.isr


def changed(cluster: Cluster) -> int:
    """How many partitions the last records changed."""
    return sum(isinstance(record, PartitionChangeRecord) for record in cluster.written)


def in_sync(cluster: Cluster, number: int) -> int:
    return sum(node(number) in p.isr for _, p in cluster.image.partitions())


def test_a_silent_broker_is_fenced_when_it_is_in_no_isr(many: Cluster) -> None:
    many.wait(SESSION_MS - 50, 2, 3)
    many.now_ms += 50
    many.beat(2)
    many.beat(3)
    seen = []
    for _ in range(4):
        many.tick()
        seen.append((changed(many), in_sync(many, 1), many.image.brokers[node(1)].fenced))
    assert seen == [(4, 6, False), (4, 2, False), (2, 0, True), (0, 0, True)]
    assert all(p.leader in (2, 3) for _, p in many.image.partitions())


def test_a_broker_that_comes_back_between_two_portions_is_not_fenced(many: Cluster) -> None:
    many.wait(SESSION_MS - 50, 2, 3)
    many.now_ms += 50
    many.beat(2)
    many.beat(3)
    many.tick()
    many.beat(1)
    many.tick()
    assert (changed(many), in_sync(many, 1)) == (0, PARTITIONS - AT_ONCE)
    assert many.image.active(node(1))


def test_a_broker_may_stop_when_it_is_in_no_isr_and_the_others_know(many: Cluster) -> None:
    seen = []
    for _ in range(4):
        answer = many.beat(1, want_shut_down=True)
        seen.append((changed(many), in_sync(many, 1), answer.should_shut_down))
    assert seen == [(4, 6, False), (4, 2, False), (2, 0, False), (0, 0, False)]
    many.beat(2)
    many.beat(3)
    assert many.beat(1, want_shut_down=True).should_shut_down


def test_ticks_go_on_with_a_broker_that_shuts_down(many: Cluster) -> None:
    """Its next heartbeat may be far away."""
    many.beat(1, want_shut_down=True)
    for left in (2, 0, 0):
        many.tick()
        assert in_sync(many, 1) == left
    assert not many.beat(1, want_shut_down=True).should_shut_down
    many.beat(2)
    many.beat(3)
    assert many.beat(1, want_shut_down=True).should_shut_down


def test_leaders_are_elected_in_portions_when_a_broker_returns(many: Cluster) -> None:
    many.wait(4 * SESSION_MS)
    assert all(p.leader == NO_NODE for _, p in many.image.partitions())
    many.beat(3)
    led = [sum(p.leader == 3 for _, p in many.image.partitions())]
    for _ in range(2):
        many.tick()
        led.append(sum(p.leader == 3 for _, p in many.image.partitions()))
    assert led == [4, 8, 10]
