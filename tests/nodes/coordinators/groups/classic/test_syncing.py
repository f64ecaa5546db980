"""SyncGroup: who gets an assignment, and who does not."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.requests import Identity, Sync
from tests.support.nodes.classic_group import GROUP, SESSION_MS, Scene


def test_the_leader_s_assignment_is_remembered_before_it_is_handed_out() -> None:
    """One record holds the generation, with each member's subscription and assignment."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b", session_ms=20_000)
    scene.stable(a, b)
    value = scene.groups.remembered[GROUP]
    assert (value.protocol_type, value.protocol, value.generation) == ("consumer", "range", 1)
    assert value.leader == a.member_id
    assert [(each.member_id, each.subscription, each.assignment) for each in value.members] == [
        (a.member_id, b"r", b"a"),
        (b.member_id, b"r", b"b"),
    ]
    second = value.members[1]
    assert (second.client_id, second.client_host) == ("b", "/127.0.0.1")
    assert (second.session_timeout, second.rebalance_timeout) == (20_000, 60_000)


def test_who_syncs_after_the_leader_is_answered_at_once() -> None:
    """The group is stable then; also if it asks again."""
    scene = Scene()
    a, b = scene.member("a").join(), scene.member("b").join()
    scene.after(0)
    assert (a.leads, b.leads) == (True, False)
    a.sync({a: b"first", b: b"second"})
    for _ in range(2):
        b.sync()
        assert b.assignment == b"second"
    assert b.synced is not None
    assert (b.synced["protocol_type"], b.synced["protocol_name"]) == ("consumer", "range")


def test_a_member_that_the_leader_forgot_gets_nothing() -> None:
    """An empty assignment; one for somebody unknown is not remembered."""
    scene = Scene()
    a, b = scene.member("a").join(), scene.member("b").join()
    scene.after(0)
    assert (a.leads, b.leads) == (True, False)
    b.sync()
    stranger = scene.member("stranger", member_id="stranger")
    a.sync({a: b"all", stranger: b"some"})
    assert b.assignment == b""
    assert len(scene.groups.remembered[GROUP].members) == 2


def test_an_assignment_by_a_follower_counts_for_nothing() -> None:
    """Only the leader assigns."""
    scene = Scene()
    a, b = scene.member("a").join(), scene.member("b").join()
    scene.after(0)
    assert (a.leads, b.leads) == (True, False)
    b.sync({a: b"forged", b: b"forged"})
    assert scene.state == "CompletingRebalance"
    a.sync({a: b"true", b: b"true"})
    assert (a.assignment, b.assignment) == (b"true", b"true")


def test_a_leader_that_syncs_again_changes_nothing() -> None:
    """The generation has its assignment; it gets its own part again."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    a.sync({a: b"other", b: b"other"})
    assert a.assignment == b"a"
    assert scene.groups.remembered[GROUP].members[1].assignment == b"b"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"generation": 0}, ErrorCode.illegal_generation),
        ({"generation": 2}, ErrorCode.illegal_generation),
        ({"who": Identity(GROUP, "nobody")}, ErrorCode.unknown_member_id),
        ({"who": Identity("unknown", "nobody")}, ErrorCode.unknown_member_id),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol": "sticky"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": "consumer", "protocol": "range"}, ErrorCode.none),
        ({"protocol_type": None, "protocol": None}, ErrorCode.none),
    ],
)
def test_who_may_sync(wrong: dict[str, Any], error: ErrorCode) -> None:
    """A member of the generation, with the group's protocol if it names one (since version 5)."""
    scene = Scene()
    a = scene.member("a")
    scene.stable(a)
    request = Sync(a.identity, 1)._replace(**wrong)
    answer = scene.driver.ask(lambda m, token, now: m.sync(request, token, now))
    assert answer["error_code"] is error


def test_no_assignment_while_members_are_gathered() -> None:
    """The one who syncs is told to join again."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a)
    b.join()
    a.sync({a: b"late"})
    assert a.sync_error is ErrorCode.rebalance_in_progress


def test_a_sync_that_a_newer_one_replaces_is_answered() -> None:
    """The older request of the same member ends."""
    scene = Scene()
    a, b = scene.member("a").join(), scene.member("b").join()
    scene.after(0)
    assert (a.leads, b.leads) == (True, False)
    b.sync()
    older = b.sync_token
    b.sync()
    assert older is not None
    assert scene.driver.answers[older]["error_code"] is ErrorCode.rebalance_in_progress
    a.sync({b: b"part"})
    assert b.assignment == b"part"


def test_a_member_that_waits_for_the_leader_keeps_its_session() -> None:
    """It cannot send heartbeats by the connection that waits; it lives as long as it waits."""
    scene = Scene()
    a, b = scene.member("a").join(), scene.member("b").join()
    scene.after(0)
    assert (a.leads, b.leads) == (True, False)
    b.sync()
    for _ in range(3):
        scene.after(SESSION_MS - 1)
        assert a.heartbeat() is ErrorCode.none
    a.sync({a: b"first", b: b"second"})
    assert b.assignment == b"second"
    scene.after(SESSION_MS - 1)
    assert a.heartbeat() is ErrorCode.none
    assert b.member_id in scene.group.members
    scene.after(1)
    assert b.member_id not in scene.group.members


def test_a_member_that_the_leader_forgets_later_loses_its_part() -> None:
    """What a generation does not assign is not assigned."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    a.join()
    b.join()
    a.sync({a: b"all"})
    b.sync()
    assert b.assignment == b""


def test_a_rebalance_before_the_assignment_takes_the_old_parts_away() -> None:
    """Nobody has a part in a generation that was not assigned, as in Kafka's descriptions."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a)
    a.join()
    assert scene.group.members[a.member_id].assignment == b"a"
    b.join()
    assert scene.state == "PreparingRebalance"
    assert scene.group.members[a.member_id].assignment == b""


def test_a_record_says_when_its_generation_began() -> None:
    """As Kafka's: the leader's assignment comes later."""
    scene = Scene()
    a = scene.member("a").join()
    scene.after(0)
    began = scene.driver.now.wall_ms
    scene.after(500)
    assert a.leads
    a.sync({a: b"all"})
    assert scene.groups.remembered[GROUP].current_state_timestamp == began
