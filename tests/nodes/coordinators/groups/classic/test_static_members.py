"""Static members (KIP-345): their places outlive their processes."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.requests import MemberProtocol
from nodes.coordinators.machine import Effects
from tests.support.nodes.classic_group import GROUP, SESSION_MS, Actor, Scene


def pair(**of_the_first: Any) -> tuple[Scene, Actor, Actor]:
    """A stable group of two static members; the first leads."""
    scene = Scene()
    first = scene.member("first", instance_id="i-1", **of_the_first)
    second = scene.member("second", instance_id="i-2")
    scene.stable(first, second)
    return scene, first, second


def restart(actor: Actor, **changes: Any) -> Actor:
    """The process of a member starts again: it knows its instance id only."""
    known = {"version": actor.version, "protocols": actor.protocols}
    return actor.scene.member(actor.name, instance_id=actor.instance_id, **{**known, **changes})


def test_a_static_member_joins_without_a_second_request() -> None:
    """Its id begins with its instance id."""
    scene = Scene()
    a = scene.member("a", instance_id="i")
    assert a.send_join() is None
    scene.after(0)
    assert a.join_error is ErrorCode.none
    assert a.member_id.startswith("i-")


def test_a_follower_that_restarts_gets_its_old_part_without_a_rebalance() -> None:
    """The group stays stable, and the new id is remembered at once (KAFKA-10284)."""
    scene, first, second = pair()
    again = restart(second)
    again.join()
    assert (again.join_error, again.generation) == (ErrorCode.none, 1)
    assert again.member_id != second.member_id
    again.sync()
    assert again.assignment == b"second"
    assert scene.state == "Stable"
    assert first.heartbeat() is ErrorCode.none
    remembered = [each.member_id for each in scene.groups.remembered[GROUP].members]
    assert remembered == [first.member_id, again.member_id]


def test_the_old_process_of_a_static_member_is_fenced() -> None:
    """By every request that names the instance id; without it the old id is unknown."""
    _scene, _first, second = pair()
    restart(second).join()
    assert second.heartbeat() is ErrorCode.fenced_instance_id
    second.sync()
    assert second.sync_error is ErrorCode.fenced_instance_id
    second.send_join()
    assert second.join_error is ErrorCode.fenced_instance_id
    assert second.leave() is ErrorCode.fenced_instance_id
    second.instance_id = None
    assert second.heartbeat() is ErrorCode.unknown_member_id


def test_a_leader_that_restarts_is_told_not_to_assign() -> None:
    """Since version 9 it leads on, and knows all members (KIP-814)."""
    scene, first, second = pair()
    again = restart(first).join()
    assert again.joined is not None
    assert again.leads
    assert again.joined["skip_assignment"]
    assert [each["member_id"] for each in again.joined["members"]] == [
        again.member_id,
        second.member_id,
    ]
    assert scene.group.leader == again.member_id


def test_before_version_9_a_leader_that_restarts_is_told_that_another_leads() -> None:
    """It would assign otherwise, and nobody would take it."""
    scene, first, _second = pair()
    again = restart(first, version=8).join()
    assert again.joined is not None
    assert again.joined["leader"] == first.member_id
    assert again.joined["members"] == ()
    assert not again.joined["skip_assignment"]
    assert scene.group.leader == again.member_id


def test_a_static_member_that_changes_the_protocol_rebalances() -> None:
    """The group's protocol must be one that all support."""
    p, q = MemberProtocol("p", b""), MemberProtocol("q", b"")
    scene = Scene()
    first = scene.member("first", instance_id="i-1", protocols=(p, q))
    second = scene.member("second", instance_id="i-2", protocols=(p, q))
    scene.stable(first, second)
    again = restart(second, protocols=(q,)).join()
    assert (again.joined, scene.state) == (None, "PreparingRebalance")
    first.join()
    assert first.joined is not None
    assert first.joined["protocol_name"] == "q"


def test_a_restart_before_the_assignment_is_there_rebalances() -> None:
    """The leader may be assigning to the old id."""
    scene = Scene()
    first = scene.member("first", instance_id="i-1").join()
    second = scene.member("second", instance_id="i-2").join()
    scene.after(0)
    assert (first.leads, second.leads) == (True, False)
    second.sync()
    again = restart(second).join()
    assert second.sync_error is ErrorCode.fenced_instance_id
    assert scene.state == "PreparingRebalance"
    first.join()
    assert (first.join_error, again.join_error) == (ErrorCode.none, ErrorCode.none)


def test_a_restart_during_a_rebalance_takes_the_old_place_in_it() -> None:
    """The old process's request ends, and the new one waits in its place."""
    scene, first, second = pair()
    third = scene.member("third", instance_id="i-3").join()
    second.send_join()
    again = restart(second).join()
    assert second.join_error is ErrorCode.fenced_instance_id
    assert (again.joined, third.joined) == (None, None)
    first.join()
    assert [each.join_error for each in (first, again, third)] == [ErrorCode.none] * 3


def test_a_rebalance_does_not_remove_a_static_member_that_is_away() -> None:
    """It keeps its place until its session ends. If it led, one who is there leads now."""
    scene = Scene()
    away = scene.member("away", instance_id="i-1", session_ms=1_800_000)
    here = scene.member("here", instance_id="i-2", session_ms=1_800_000)
    scene.stable(away, here)
    here.protocols = (MemberProtocol("range", b"changed"),)
    here.join()
    scene.after(60_000)
    assert here.leads
    assert away.member_id in scene.group.members


def test_a_rebalance_that_no_static_member_joins_ends_with_their_sessions() -> None:
    """It is looked at again and again. The group becomes empty; no deadline is left behind."""
    scene = Scene()
    first = scene.member("first", instance_id="i-1", session_ms=100_000, rebalance_ms=100)
    second = scene.member("second", instance_id="i-2", session_ms=100_000, rebalance_ms=100)
    scene.stable(first, second)
    c = scene.member("c").join()
    c.leave()
    assert scene.state == "PreparingRebalance"
    scene.after(100_000)
    assert scene.state == "Empty"
    assert scene.driver.machine.deadline_ms() is None


def test_a_restarted_member_that_never_synced_owes_one_sync() -> None:
    """The new id has to sync in the old one's place; then no rebalance follows."""
    scene = Scene()
    first = scene.member("first", instance_id="i-1", session_ms=1_800_000).join()
    second = scene.member("second", instance_id="i-2", session_ms=1_800_000).join()
    scene.after(0)
    assert (first.leads, second.leads) == (True, False)
    first.sync({first: b"first", second: b"second"})
    again = restart(second, session_ms=1_800_000).join()
    assert again.join_error is ErrorCode.none
    again.sync()
    assert again.assignment == b"second"
    scene.after(120_000)
    assert scene.state == "Stable"


def test_the_session_of_the_new_id_counts() -> None:
    """The old id's session ends without an effect."""
    scene, first, second = pair()
    scene.after(SESSION_MS - 1)
    first.heartbeat()
    again = restart(second).join()
    scene.after(SESSION_MS - 1)
    first.heartbeat()
    assert (again.join_error, again.heartbeat()) == (ErrorCode.none, ErrorCode.none)
    assert scene.state == "Stable"


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_new_leader_of_the_partition_knows_the_new_id(version: int) -> None:
    """After a change of the coordinator nobody is fenced wrongly."""
    scene, first, second = pair()
    again = restart(second, version=version).join()
    assert again.join_error is ErrorCode.none
    scene.driver.fail_over()
    assert again.heartbeat() is ErrorCode.none
    assert first.heartbeat() is ErrorCode.none
    assert second.heartbeat() is ErrorCode.fenced_instance_id


def test_a_restart_can_be_what_a_rebalance_waits_for() -> None:
    """The last member that was missing is back, with a new id."""
    scene, first, second = pair()
    third = scene.member("third").join()
    first.join()
    again = restart(second).join()
    assert [each.join_error for each in (first, again, third)] == [ErrorCode.none] * 3


def test_an_old_id_leaves_no_deadline_behind() -> None:
    """The group may be deleted before the session of the old id would have ended."""
    scene = Scene()
    a = scene.member("a", instance_id="i")
    scene.stable(a)
    again = restart(a).join()
    again.leave()
    assert scene.state == "Empty"
    scene.driver.perform(lambda m, token, now: Effects(m.tombstones(GROUP)))
    assert scene.groups.deadline_ms() is None
