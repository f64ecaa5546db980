"""Throttle configurations of a reassignment, as Kafka's tool computes them."""

from harness.admin.descriptions import Reassignment
from harness.admin.throttles import broker_limits, moves, topic_limits
from nodes.ids import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_present_replicas_are_throttled_as_leaders_and_new_ones_as_followers() -> None:
    moving = moves({A0: (1, 4), A1: (2, 1)}, {A0: (1, 2), A1: (1, 2)}, {})
    assert topic_limits(moving) == {
        "a": {
            "leader.replication.throttled.replicas": "0:1,0:2,1:1,1:2",
            "follower.replication.throttled.replicas": "0:4",
        }
    }
    assert broker_limits(moving, 1000) == {
        node: {
            "leader.replication.throttled.rate": "1000",
            "follower.replication.throttled.rate": "1000",
        }
        for node in (1, 2, 4)
    }


def test_added_move_keeps_the_throttles_of_moves_in_progress() -> None:
    """Its sources are the replicas that have the data."""
    ongoing = {
        B0: Reassignment(replicas=(3, 1), adding=(3,), removing=(1,)),
        A0: Reassignment(replicas=(4, 1), adding=(4,), removing=()),
    }
    moving = moves({A0: (5, 1)}, {A0: (4, 1)}, ongoing)
    assert moving[B0].sources == {1}
    assert moving[B0].destinations == {3}
    assert moving[A0].sources == {1}
    assert moving[A0].destinations == {5}
