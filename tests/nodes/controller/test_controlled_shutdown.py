"""Controlled shutdown: a broker hands over what it leads before it is let go."""

import pytest

from nodes.ids import NO_NODE
from tests.support.nodes.controller_cluster import SESSION_MS, Cluster, node, nodes, state_of


def test_a_broker_may_stop_after_one_batch_has_handed_over_its_leaderships(
    cluster: Cluster,
) -> None:
    """First all leaderships and ISRs, then, when the others have read that, the end."""
    cluster.create("u", nodes(1, 3, 2))
    cluster.create("v", nodes(2, 1, 3))
    answer = cluster.beat(1, want_shut_down=True)
    assert not answer.should_shut_down
    assert not answer.is_fenced
    assert len(cluster.written) == 4
    handed_over = cluster.image.offset
    assert [cluster.partition(name).leader for name in "tuv"] == list(nodes(2, 3, 2))
    assert all(node(1) not in cluster.partition(name).isr for name in "tuv")
    cluster.beat(2, offset=handed_over)
    cluster.beat(3, offset=handed_over - 1)
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    assert cluster.written == []
    cluster.beat(3, offset=handed_over)
    answer = cluster.beat(1, want_shut_down=True)
    assert answer.should_shut_down
    assert answer.is_fenced
    assert cluster.image.brokers[node(1)].fenced


def test_a_broker_that_stopped_cleanly_may_return_at_once(cluster: Cluster) -> None:
    """A clean restart does not wait for a session to run out."""
    cluster.beat(1, want_shut_down=True)
    cluster.beat(2)
    cluster.beat(3)
    assert cluster.beat(1, want_shut_down=True).should_shut_down
    cluster.register(1, incarnation=11)
    assert not cluster.beat(1).is_fenced
    assert not cluster.image.brokers[node(1)].in_controlled_shutdown


def test_a_broker_that_shuts_down_is_not_unfenced_again(cluster: Cluster) -> None:
    """Whatever it says later: it needs a new registration."""
    cluster.beat(1, want_shut_down=True)
    cluster.wait(SESSION_MS, 2, 3)
    assert cluster.image.brokers[node(1)].fenced
    assert cluster.beat(1).is_fenced


def test_a_dead_broker_does_not_delay_a_shutdown(cluster: Cluster) -> None:
    """Once fenced, nobody waits for it to read the metadata."""
    cluster.beat(1, want_shut_down=True)
    cluster.wait(SESSION_MS, 1, 2)
    assert cluster.beat(1, want_shut_down=True).should_shut_down


def test_a_sole_replica_shuts_down_at_once(cluster: Cluster) -> None:
    """Nothing can take over: the partition waits leaderless for it."""
    cluster.create("alone", nodes(1))
    cluster.lose(2, 3)
    answer = cluster.beat(1, want_shut_down=True)
    assert answer.should_shut_down
    assert state_of(cluster.partition("alone")) == (NO_NODE, (), 1)
    assert state_of(cluster.partition()) == (NO_NODE, (), 1)
    assert cluster.partition("alone").elr == nodes(1)


def test_two_brokers_shutting_down_do_not_wait_for_each_other(cluster: Cluster) -> None:
    """Only those that stay have to know."""
    cluster.beat(1, want_shut_down=True)
    cluster.beat(2, want_shut_down=True)
    cluster.beat(3)
    assert cluster.beat(1, want_shut_down=True).should_shut_down
    assert cluster.beat(2, want_shut_down=True).should_shut_down
    assert state_of(cluster.partition()) == (3, nodes(3), 2)


@pytest.mark.parametrize("want_fence", [True, False])
def test_a_broker_without_partitions_or_in_a_hurry_shuts_down_at_once(
    cluster: Cluster, want_fence: bool
) -> None:
    """Nothing to hand over, or the broker asks for both fencing and shutdown."""
    if not want_fence:
        cluster.register(4)
        cluster.beat(4)
    leaver = 1 if want_fence else 4
    answer = cluster.beat(leaver, want_shut_down=True, want_fence=want_fence)
    assert (answer.should_shut_down, answer.is_fenced) == (True, True)
    assert cluster.image.brokers[node(leaver)].fenced
    assert cluster.partition().leader == (2 if want_fence else 1)


def test_a_fenced_broker_may_stop_at_once(cluster: Cluster) -> None:
    """It has nothing to hand over."""
    cluster.lose(1)
    assert cluster.beat(1, want_shut_down=True).should_shut_down
    assert cluster.written == []


def test_a_shutdown_begun_under_another_controller_ends(cluster: Cluster) -> None:
    """Once the others have read everything the new controller started from."""
    cluster.beat(1, want_shut_down=True)
    cluster.take_over()
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    cluster.beat(2)
    cluster.beat(3)
    assert cluster.beat(1, want_shut_down=True).should_shut_down
