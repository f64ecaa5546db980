"""Broker sessions: who is silent, for how long, and whose fault that is."""

from nodes.controller.sessions import BrokerSessions
from nodes.ids import NO_OFFSET, Offset
from tests.support.nodes.controller_cluster import node, nodes


def test_a_session_lasts_its_timeout_from_the_last_contact() -> None:
    """Live just before the timeout, expired at it."""
    sessions = BrokerSessions(100)
    sessions.touch(node(1), 1000, Offset(7))
    assert sessions.live(node(1), 1099)
    assert sessions.expired(1099) == []
    assert not sessions.live(node(1), 1100)
    assert sessions.expired(1100) == [1]
    sessions.touch(node(1), 1100)
    assert sessions.live(node(1), 1150)


def test_the_longest_silent_comes_first() -> None:
    """And of equals the lower id, so that the order is one."""
    sessions = BrokerSessions(100)
    for number, at in ((3, 10), (1, 20), (2, 10)):
        sessions.touch(node(number), at)
    assert sessions.expired(500) == list(nodes(2, 3, 1))


def test_an_ended_session_is_not_live() -> None:
    """Neither live nor expired; ending twice is no error."""
    sessions = BrokerSessions(100)
    sessions.touch(node(1), 0, Offset(5))
    assert sessions.metadata_offset(node(1)) == 5
    sessions.end(node(1))
    sessions.end(node(1))
    assert not sessions.live(node(1), 1)
    assert sessions.expired(1000) == []
    assert sessions.metadata_offset(node(1)) == NO_OFFSET


def test_a_stall_of_the_controller_extends_all_sessions() -> None:
    """All sessions move on by the stall, but never into the future."""
    sessions = BrokerSessions(100)
    sessions.touch(node(1), 0)
    sessions.touch(node(2), 195)
    sessions.extend_all(150, 200)
    assert sessions.live(node(1), 249)
    assert not sessions.live(node(1), 250)
    assert sessions.live(node(2), 299)
    assert not sessions.live(node(2), 300)
