"""Rebalances, told as stories: who waits for whom, and how long."""

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.settings import ClassicSettings
from tests.support.nodes.classic_group import REBALANCE_MS, SESSION_MS, Scene


def test_two_members_join_and_share_what_the_leader_assigns() -> None:
    """The first member leads, and knows both; each gets its part."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    a.join()
    b.join()
    assert a.joined is None
    assert scene.state == "PreparingRebalance"
    scene.after(0)
    assert a.leads
    assert not b.leads
    assert a.joined is not None
    assert b.joined is not None
    assert [each["member_id"] for each in a.joined["members"]] == [a.member_id, b.member_id]
    assert b.joined["members"] == ()
    assert (a.generation, b.generation) == (1, 1)
    assert b.sync() is None
    assert scene.state == "CompletingRebalance"
    a.sync({a: b"first", b: b"second"})
    assert (a.assignment, b.assignment) == (b"first", b"second")
    assert scene.state == "Stable"


def test_a_new_group_waits_for_more_members_and_longer_if_some_come() -> None:
    """The first rebalance ends when nobody came during one delay."""
    scene = Scene(ClassicSettings(initial_rebalance_delay_ms=3_000))
    a, b = scene.member("a", rebalance_ms=60_000), scene.member("b")
    a.join()
    scene.after(2_900)
    b.join()
    scene.after(200)
    assert a.joined is None
    scene.after(2_800)
    assert a.joined is None
    scene.after(200)
    assert (a.generation if a.joined else None, b.join_error) == (1, ErrorCode.none)


def test_the_initial_delay_ends_with_the_rebalance_time_out() -> None:
    """Members that come one after another cannot hold up the first for ever."""
    scene = Scene(ClassicSettings(initial_rebalance_delay_ms=3_000))
    first = scene.member("first", rebalance_ms=10_000).join()
    for n in range(20):
        scene.after(500)
        if first.joined is None:
            scene.member(f"other {n}", rebalance_ms=10_000).join()
    assert first.join_error is ErrorCode.none


def test_a_member_that_comes_later_makes_the_others_join_again() -> None:
    """They learn it from their heartbeats, and the generation begins when all are back."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a)
    b.join()
    assert a.heartbeat() is ErrorCode.rebalance_in_progress
    assert b.joined is None
    a.join()
    assert (a.joined is not None, b.joined is not None) == (True, True)
    assert a.leads
    assert (a.generation, b.generation) == (2, 2)


def test_a_member_that_does_not_join_again_loses_its_place() -> None:
    """The rebalance waits for it as long as its members ask for."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b", session_ms=2 * REBALANCE_MS)
    scene.stable(a, b)
    a.join()
    for _ in range(10):
        scene.after(REBALANCE_MS / 10 - 1)
        assert b.heartbeat() is ErrorCode.rebalance_in_progress
    scene.after(20)
    assert a.join_error is ErrorCode.none
    assert list(scene.group.members) == [a.member_id]
    assert b.heartbeat() is ErrorCode.unknown_member_id


def test_another_member_leads_if_the_leader_does_not_come_back() -> None:
    """A leader that fails is replaced by one who joined."""
    scene = Scene()
    a, b, c = scene.member("a"), scene.member("b"), scene.member("c")
    scene.stable(a, b)
    c.join()
    b.join()
    scene.after(SESSION_MS)
    assert b.leads
    assert b.joined is not None
    assert {each["member_id"] for each in b.joined["members"]} == {b.member_id, c.member_id}


def test_members_that_wait_for_a_leader_that_fails_join_again() -> None:
    """Nobody waits for an assignment that never comes (KAFKA-9752)."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    a.join()
    b.join()
    scene.after(0)
    b.sync()
    scene.after(SESSION_MS)
    assert b.sync_error is ErrorCode.rebalance_in_progress
    b.join()
    assert b.leads
    b.sync({b: b"all"})
    assert b.assignment == b"all"


def test_a_member_that_never_syncs_is_removed() -> None:
    """It sends heartbeats, so its session goes on; but it takes part in nothing (KAFKA-12890)."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    a.join()
    b.join()
    scene.after(0)
    assert (a.join_error, b.join_error) == (ErrorCode.none, ErrorCode.none)
    a.sync({a: b"first", b: b"second"})
    for _ in range(7):
        scene.after(SESSION_MS - 1)
        a.heartbeat()
        silent = b.heartbeat()
    assert silent is ErrorCode.unknown_member_id
    assert scene.state == "PreparingRebalance"
    a.join()
    assert a.leads


def test_the_time_to_sync_ends_with_the_last_sync() -> None:
    """A group in which everybody synced does not rebalance later."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    for _ in range(20):
        scene.after(SESSION_MS - 1)
        assert (a.heartbeat(), b.heartbeat()) == (ErrorCode.none, ErrorCode.none)
    assert scene.state == "Stable"
    assert scene.group.generation == 1


def test_a_group_that_everybody_left_is_empty_and_written() -> None:
    """The generation of nobody is remembered; the next member begins after it."""
    scene = Scene()
    a = scene.member("a")
    scene.stable(a)
    assert a.leave() is ErrorCode.none
    assert scene.state == "Empty"
    value = scene.groups.remembered["readers"]
    assert (value.generation, value.members, value.protocol) == (2, (), None)
    assert value.protocol_type == "consumer"
    b = scene.member("b")
    scene.stable(b)
    assert b.generation == 3


def test_a_rebalance_of_a_stable_group_is_not_delayed() -> None:
    """The delay is for a group that begins."""
    scene = Scene(ClassicSettings(initial_rebalance_delay_ms=3_000))
    a = scene.member("a").join()
    scene.after(3_000)
    assert a.leads
    a.sync({a: b"all"})
    a.join()
    assert (a.join_error, a.generation) == (ErrorCode.none, 2)


def test_members_that_wait_for_nobody_have_no_time_to_sync() -> None:
    """A negative time-out is none, as in Kafka: the rebalance ends, and its members are removed."""
    scene = Scene()
    a = scene.member("a", rebalance_ms=-5).join()
    scene.after(0)
    assert a.join_error is ErrorCode.none
    assert scene.state == "Empty"
    assert scene.groups.deadline_ms() is None
