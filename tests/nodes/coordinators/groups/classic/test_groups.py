"""The life of groups beside their members: a new coordinator, deletion, descriptions."""

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.records import (
    GROUP_METADATA,
    GroupMetadataKey,
    group_tombstone,
)
from nodes.coordinators.groups.kind import ListedGroup
from nodes.coordinators.groups.settings import ClassicSettings
from nodes.coordinators.machine import Effects
from tests.support.nodes.classic_group import GROUP, NO_DELAY, SESSION_MS, Scene


def delete(scene: Scene) -> None:
    """Delete the group, as the coordinator does when it may."""
    assert scene.groups.check_delete(GROUP) is ErrorCode.none
    scene.driver.perform(lambda m, token, now: Effects(m.tombstones(GROUP)))


def test_a_new_coordinator_goes_on_with_a_stable_group() -> None:
    """The members notice nothing."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    scene.driver.fail_over()
    assert (a.heartbeat(), b.heartbeat()) == (ErrorCode.none, ErrorCode.none)
    b.sync()
    assert b.assignment == b"b"
    assert scene.group.leader == a.member_id


def test_sessions_begin_anew_with_a_new_coordinator() -> None:
    """It does not know when a member was heard last. Who is gone is removed later."""
    scene = Scene()
    a, b = scene.member("a", session_ms=60_000), scene.member("b")
    scene.stable(a, b)
    scene.after(SESSION_MS - 1)
    scene.driver.fail_over()
    scene.after(SESSION_MS - 1)
    assert (a.heartbeat(), scene.state) == (ErrorCode.none, "Stable")
    scene.after(1)
    assert a.heartbeat() is ErrorCode.rebalance_in_progress


def test_a_rebalance_that_a_coordinator_did_not_end_begins_again() -> None:
    """The new one knows the last generation that was assigned. The newer one counts no more."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a)
    b.join()
    a.join()
    assert (a.join_error, a.generation) == (ErrorCode.none, 2)
    scene.driver.fail_over()
    a.sync({a: b"lost"})
    assert a.sync_error is ErrorCode.illegal_generation
    assert b.heartbeat() is ErrorCode.unknown_member_id
    b.member_id = ""
    a.join()
    b.join()
    a.join()
    assert (a.joined is not None, b.joined is not None) == (True, True)
    assert a.generation == b.generation == 3


def test_a_record_of_version_0_has_no_rebalance_time_out() -> None:
    """The session time-out stands for it, as in Kafka."""
    scene = Scene()
    scene.stable(scene.member("a"))
    value = scene.groups.remembered[GROUP]
    old = GROUP_METADATA.encode(GroupMetadataKey(group=GROUP), value, 0)
    scene.driver.perform(lambda m, token, now: Effects((old,)))
    scene.driver.fail_over()
    assert [m.rebalance_timeout_ms for m in scene.group.members.values()] == [SESSION_MS]
    assert scene.group.state_since_wall_ms is None


def test_a_group_that_has_grown_too_large_rebalances_when_it_is_loaded() -> None:
    """group.max.size may have been lowered."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    smaller = Scene(ClassicSettings(max_size=1))
    smaller.driver.log = scene.driver.log
    smaller.driver.fail_over()
    assert smaller.state == "PreparingRebalance"


def test_a_group_with_members_cannot_be_deleted() -> None:
    """In whatever state it is; an empty one can."""
    scene = Scene()
    a = scene.member("a").join()
    assert scene.groups.check_delete(GROUP) is ErrorCode.non_empty_group
    scene.after(0)
    assert scene.groups.check_delete(GROUP) is ErrorCode.non_empty_group
    assert a.leads
    a.sync({a: b""})
    assert scene.groups.check_delete(GROUP) is ErrorCode.non_empty_group
    a.leave()
    delete(scene)
    assert not scene.groups.has(GROUP)
    assert scene.groups.remembered == {}
    assert a.heartbeat() is ErrorCode.unknown_member_id


def test_a_deleted_group_leaves_no_deadline_behind() -> None:
    """Also one to which somebody was about to come; that one has to begin again."""
    scene = Scene()
    a = scene.member("a")
    answer = a.send_join()
    assert answer is not None
    delete(scene)
    assert scene.groups.deadline_ms() is None
    a.member_id = answer["member_id"]
    a.send_join()
    assert a.join_error is ErrorCode.unknown_member_id


def test_a_tombstone_of_an_unknown_group_changes_nothing() -> None:
    """Compaction may have removed what it hid."""
    scene = Scene()
    scene.driver.perform(lambda m, token, now: Effects((group_tombstone("other"),)))
    assert scene.groups.groups == {}


def test_a_stable_group_is_described_with_subscriptions_and_assignments() -> None:
    """As rows of DescribeGroups' response."""
    scene = Scene()
    a = scene.member("a", instance_id="i")
    scene.stable(a)
    assert scene.groups.describe(GROUP) == {
        "error_code": ErrorCode.none,
        "group_id": GROUP,
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "range",
        "members": (
            {
                "member_id": a.member_id,
                "group_instance_id": "i",
                "client_id": "a",
                "client_host": "/127.0.0.1",
                "member_metadata": b"r",
                "member_assignment": b"a",
            },
        ),
    }
    a.join()
    described = scene.groups.describe(GROUP)
    assert (described["group_state"], described["protocol_data"]) == ("CompletingRebalance", "")
    assert described["members"][0]["member_metadata"] == b""


@pytest.mark.parametrize(
    ("moment", "state"),
    [("announced", "Empty"), ("joining", "PreparingRebalance"), ("stable", "Stable")],
)
def test_groups_are_listed_with_their_states(moment: str, state: str) -> None:
    """A group that nobody joined yet has no protocol type."""
    scene = Scene(NO_DELAY)
    a = scene.member("a")
    if moment == "announced":
        a.send_join()
    elif moment == "joining":
        a.join()
    else:
        scene.stable(a)
    protocol_type = "" if moment == "announced" else "consumer"
    assert list(scene.groups.listing()) == [ListedGroup(GROUP, protocol_type, state, "Classic")]


def test_an_abandoned_request_keeps_the_member_s_place() -> None:
    """As in Kafka: the client may come back by another connection, with its id."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    a.join()
    assert a.join_token is not None
    scene.groups.abandoned(a.join_token)
    b.join()
    assert b.join_error is ErrorCode.none
    assert a.member_id in scene.group.members
