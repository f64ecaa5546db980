"""LeaveGroup."""

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.requests import Leaver
from tests.support.nodes.classic_group import GROUP, Scene


def test_the_others_share_what_a_leaver_had() -> None:
    """The member is gone at once, and the group rebalances."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    assert a.leave() is ErrorCode.none
    assert b.heartbeat() is ErrorCode.rebalance_in_progress
    b.join()
    assert b.leads
    b.sync({b: b"all"})
    assert b.assignment == b"all"


def test_several_leave_with_one_rebalance() -> None:
    """An administrator removes static members by their instance ids; each has an outcome."""
    scene = Scene()
    a, b = scene.member("a", instance_id="i-a"), scene.member("b", instance_id="i-b")
    c = scene.member("c")
    scene.stable(a, b, c)
    leavers = [
        Leaver("", "i-a"),
        Leaver("", "i-unknown"),
        Leaver(""),
        Leaver("stranger"),
        Leaver("stranger", "i-b"),
        Leaver(b.member_id, "i-b"),
    ]
    answer = scene.driver.ask(lambda m, token, now: m.leave(GROUP, leavers, token, now))
    assert answer["error_code"] is ErrorCode.none
    assert [each["error_code"] for each in answer["members"]] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
        ErrorCode.none,
    ]
    assert answer["members"][0] == {
        "member_id": "",
        "group_instance_id": "i-a",
        "error_code": ErrorCode.none,
    }
    assert list(scene.group.members) == [c.member_id]
    assert scene.state == "PreparingRebalance"


def test_a_member_that_is_removed_while_it_waits_is_told() -> None:
    """Its JoinGroup or SyncGroup ends; it does not wait for ever."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    a.join()
    a.leave()
    assert a.join_error is ErrorCode.unknown_member_id
    b.join()
    assert b.leads
    c = scene.member("c").join()
    b.join()
    assert c.joined is not None
    c.sync()
    c.leave()
    assert c.sync_error is ErrorCode.unknown_member_id


def test_a_member_leaves_before_it_joined() -> None:
    """Nobody waits any longer for the id that it was given."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a)
    answer = b.send_join()
    assert answer is not None
    b.member_id = answer["member_id"]
    a.join()
    assert a.joined is None
    assert b.leave() is ErrorCode.none
    assert a.join_error is ErrorCode.none


def test_leaving_a_group_that_is_not_there() -> None:
    """Each member is unknown; the request as a whole succeeds."""
    assert Scene().member("a", member_id="a").leave() is ErrorCode.unknown_member_id


def test_nobody_who_leaves_stops_a_rebalance_that_is_complete_without_it() -> None:
    """The last one that the others waited for leaves."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    a.join()
    b.leave()
    assert a.join_error is ErrorCode.none


def test_a_stranger_that_leaves_does_not_disturb_the_group() -> None:
    """Only who is gone makes the others rebalance."""
    scene = Scene()
    scene.stable(scene.member("a"))
    assert scene.member("b", member_id="b").leave() is ErrorCode.unknown_member_id
    assert scene.state == "Stable"
