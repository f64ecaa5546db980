"""Heartbeats and sessions."""

from kio.schema.errors import ErrorCode

from tests.support.nodes.classic_group import REBALANCE_MS, SESSION_MS, Scene


def test_heartbeats_keep_a_member() -> None:
    """Each begins the session time-out anew."""
    scene = Scene()
    a = scene.member("a")
    scene.stable(a)
    for _ in range(5):
        scene.after(SESSION_MS - 1)
        assert a.heartbeat() is ErrorCode.none


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    """After its own session time-out, not before."""
    scene = Scene()
    a, b = scene.member("a", session_ms=60_000), scene.member("b")
    scene.stable(a, b)
    scene.after(SESSION_MS - 1)
    assert scene.state == "Stable"
    scene.after(1)
    assert a.heartbeat() is ErrorCode.rebalance_in_progress
    assert b.heartbeat() is ErrorCode.unknown_member_id
    a.join()
    assert a.leads


def test_a_group_whose_members_all_fail_becomes_empty() -> None:
    """Nobody has to come for that."""
    scene = Scene()
    scene.stable(scene.member("a"), scene.member("b"))
    scene.after(2 * SESSION_MS)
    # A rebalance that waits for a member that died ends with that member's session.
    assert scene.state == "Empty"
    scene.after(REBALANCE_MS)
    assert scene.driver.machine.deadline_ms() is None


def test_a_member_that_waits_in_a_rebalance_keeps_its_session() -> None:
    """It waits for others, as long as they may take."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b", session_ms=60_000)
    scene.stable(a, b)
    a.join()
    scene.after(3 * SESSION_MS)
    assert a.joined is None
    b.join()
    assert (a.join_error, b.join_error) == (ErrorCode.none, ErrorCode.none)


def test_its_session_begins_when_the_rebalance_ends() -> None:
    """A member whose client is gone meanwhile is noticed then."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b", session_ms=60_000)
    scene.stable(a, b)
    a.join()
    scene.after(3 * SESSION_MS)
    b.join()
    b.sync()
    scene.after(SESSION_MS)
    assert b.sync_error is ErrorCode.rebalance_in_progress
    assert a.member_id not in scene.group.members


def test_heartbeats_of_another_generation_or_member_are_refused() -> None:
    """Who was removed learns it from its next heartbeat."""
    scene = Scene()
    a, stranger = scene.member("a"), scene.member("stranger", member_id="stranger")
    assert stranger.heartbeat() is ErrorCode.unknown_member_id
    scene.stable(a)
    assert stranger.heartbeat() is ErrorCode.unknown_member_id
    a.generation = 7
    assert a.heartbeat() is ErrorCode.illegal_generation
