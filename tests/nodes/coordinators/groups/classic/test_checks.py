"""Commits, deletions and expiry of offsets, as the group allows them."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.requests import MemberProtocol
from nodes.coordinators.groups.kind import Committer, Retention
from tests.support.nodes.classic_group import GROUP, SESSION_MS, Actor, Scene

SUBSCRIPTION = bytes.fromhex("0001 00000002 0001 61 0003 626364 ffffffff")
"""Version 1 of a consumer's subscription to the topics a and bcd."""


def check(scene: Scene, **who: Any) -> ErrorCode:
    """Whether a commit is accepted now."""
    return scene.groups.check_commit(Committer(GROUP, **who), scene.driver.now)


def as_member(actor: Actor, **changes: Any) -> dict[str, Any]:
    """A commit by a member of the group."""
    known = {"member_id": actor.member_id, "generation": actor.generation}
    return {**known, "instance_id": actor.instance_id, **changes}


def test_only_members_of_the_current_generation_commit() -> None:
    """A zombie of an earlier generation, or a fenced static member, is refused."""
    scene = Scene()
    a = scene.member("a", instance_id="i")
    scene.stable(a)
    assert check(scene, **as_member(a)) is ErrorCode.none
    assert check(scene, **as_member(a, generation=0)) is ErrorCode.illegal_generation
    assert check(scene, **as_member(a, generation=2)) is ErrorCode.illegal_generation
    assert check(scene, **as_member(a, member_id="x")) is ErrorCode.fenced_instance_id
    unknown = as_member(a, member_id="x", instance_id=None)
    assert check(scene, **unknown) is ErrorCode.unknown_member_id
    assert check(scene) is ErrorCode.unknown_member_id


def test_members_commit_while_others_join_but_not_while_the_leader_assigns() -> None:
    """A rebalance begins with a last commit of what was read."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a)
    b.join()
    assert check(scene, **as_member(a)) is ErrorCode.none
    a.join()
    assert a.join_error is ErrorCode.none
    assert check(scene, **as_member(a)) is ErrorCode.rebalance_in_progress
    transactional = as_member(a, transactional=True)
    assert check(scene, **transactional) is ErrorCode.none


def test_an_empty_group_takes_commits_of_consumers_without_a_group() -> None:
    """With a generation it does not."""
    scene = Scene()
    a = scene.member("a")
    scene.stable(a)
    a.leave()
    assert check(scene) is ErrorCode.none
    assert check(scene, **as_member(a)) is ErrorCode.unknown_member_id


def test_a_transaction_without_a_member_commits_always() -> None:
    """Producers before KIP-447 do not say who reads; with a member it is checked."""
    scene = Scene()
    a = scene.member("a")
    scene.stable(a)
    assert check(scene, transactional=True) is ErrorCode.none
    old = as_member(a, generation=0, transactional=True)
    assert check(scene, **old) is ErrorCode.illegal_generation


@pytest.mark.parametrize("transactional", [False, True])
def test_a_commit_is_a_sign_of_life(transactional: bool) -> None:
    """The member's; a transaction's commit comes from a producer."""
    scene = Scene()
    a = scene.member("a")
    scene.stable(a)
    scene.after(SESSION_MS - 1)
    assert check(scene, **as_member(a, transactional=transactional)) is ErrorCode.none
    scene.after(1)
    assert scene.state == ("Empty" if transactional else "Stable")


def test_offsets_of_an_empty_group_grow_old_since_it_is_empty() -> None:
    """Also after a new coordinator has loaded the group."""
    scene = Scene()
    a = scene.member("a")
    scene.stable(a)
    scene.after(5_000)
    a.leave()
    since = scene.driver.now.wall_ms
    scene.after(100_000)
    assert scene.groups.retention(GROUP) == Retention(since)
    scene.driver.fail_over()
    assert scene.groups.retention(GROUP) == Retention(since)


def test_no_offset_expires_in_a_rebalance() -> None:
    """Nor in a group whose subscriptions are not known (KAFKA-8069, KAFKA-13636)."""
    scene = Scene()
    a = scene.member("a", protocols=(MemberProtocol("range", SUBSCRIPTION),))
    scene.stable(a)
    assert scene.groups.retention(GROUP) == Retention(None)
    scene.member("b").join()
    assert scene.groups.retention(GROUP) is None
    other = Scene()
    other.stable(other.member("a", protocols=(MemberProtocol("range", b"?"),)))
    assert other.groups.retention(GROUP) is None


def test_offsets_of_a_group_that_nobody_joined_grow_old_since_their_commits() -> None:
    """Somebody was given an id, and did not come."""
    scene = Scene()
    scene.member("a").send_join()
    assert scene.groups.retention(GROUP) == Retention(None)


def test_the_topics_that_consumers_read_are_known() -> None:
    """From their subscriptions, also after a new coordinator has loaded the group."""
    scene = Scene()
    scene.stable(scene.member("a", protocols=(MemberProtocol("range", SUBSCRIPTION),)))
    for _ in range(2):
        assert scene.groups.subscribes(GROUP, "a")
        assert scene.groups.subscribes(GROUP, "bcd")
        assert not scene.groups.subscribes(GROUP, "b")
        scene.driver.fail_over()


def test_consumers_with_an_unknown_subscription_read_everything() -> None:
    """Other protocols read nothing that the coordinator knows of."""
    scene = Scene()
    scene.stable(scene.member("a", protocols=(MemberProtocol("range", b"?"),)))
    assert scene.groups.subscribes(GROUP, "a")
    other = Scene()
    other.stable(other.member("a", protocol_type="connect"))
    assert not other.groups.subscribes(GROUP, "a")


def test_offsets_are_deleted_where_consumers_can_be_asked() -> None:
    """Members of another protocol may need them as long as they are there."""
    scene = Scene()
    scene.stable(scene.member("a"))
    assert scene.groups.check_offset_delete(GROUP) is ErrorCode.none
    other = Scene()
    a = other.member("a", protocol_type="connect")
    other.stable(a)
    assert other.groups.check_offset_delete(GROUP) is ErrorCode.non_empty_group
    a.leave()
    assert other.groups.check_offset_delete(GROUP) is ErrorCode.none


def test_everybody_may_fetch_offsets() -> None:
    """Classic groups have no member epochs."""
    scene = Scene()
    scene.stable(scene.member("a"))
    assert scene.groups.check_fetch(GROUP, None, -1) is ErrorCode.none
