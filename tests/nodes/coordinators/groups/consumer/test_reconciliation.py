"""One step of a member towards its target assignment."""

from uuid import UUID

import pytest

from nodes.coordinators.groups.consumer.assignors.spec import Assignment
from nodes.coordinators.groups.consumer.member import CurrentAssignment, MemberState
from nodes.coordinators.groups.consumer.reconciliation import Goal, reconcile

T, U = UUID(int=1), UUID(int=2)
STABLE, UNREVOKED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


def of(*partitions: int, topic: UUID = T) -> Assignment:
    return {topic: frozenset(partitions)} if partitions else {}


def at(
    epoch: int, state: MemberState, assigned: Assignment, pending: Assignment | None = None
) -> CurrentAssignment:
    return CurrentAssignment(epoch, epoch - 1, state, assigned, pending or {})


def step(
    current: CurrentAssignment,
    target: Assignment,
    owned: Assignment | None = None,
    *,
    epoch: int = 5,
    taken: Assignment | None = None,
    subscribed: frozenset[UUID] = frozenset({T}),
    changed: bool = False,
) -> tuple[int, int, MemberState, Assignment, Assignment] | None:
    held = taken or {}
    goal = Goal(epoch, target, subscribed, lambda t, p: p not in held.get(t, frozenset()))
    found = reconcile(current, goal, owned, subscription_changed=changed)
    return None if found is None else tuple(found)  # type: ignore[return-value]


def test_a_stable_member_moves_to_the_epoch_of_its_target() -> None:
    """With what is free; with nothing to do, in the epoch alone."""
    assert step(at(4, STABLE, of(1)), of(1, 2)) == (5, 4, STABLE, of(1, 2), {})
    assert step(at(4, STABLE, of(1)), of(1)) == (5, 4, STABLE, of(1), {})


def test_a_member_that_has_to_revoke_stays_in_its_epoch() -> None:
    """Unless it says that it does not have the partition."""
    revoking = (4, 4, UNREVOKED, of(1), of(2))
    assert step(at(4, STABLE, of(1, 2)), of(1, 3)) == revoking
    assert step(at(4, STABLE, of(1, 2)), of(1, 3), of(2)) == revoking
    assert step(at(4, STABLE, of(1, 2)), of(1, 3), of(1)) == (5, 4, STABLE, of(1, 3), {})


def test_a_member_revokes_before_it_goes_on() -> None:
    """A heartbeat that does not say what it has does not say that it revoked."""
    revoking = at(4, UNREVOKED, of(1), of(2))
    assert step(revoking, of(1)) == tuple(revoking)
    assert step(revoking, of(1), of(1, 2)) == tuple(revoking)
    assert step(revoking, of(1), of(1)) == (5, 4, STABLE, of(1), {})
    assert step(revoking, of(1, 2), of(1)) == (5, 4, STABLE, of(1, 2), {})


def test_a_member_waits_for_what_others_have() -> None:
    """It gets the rest meanwhile, and that when it is free."""
    waiting = (5, 4, UNRELEASED, of(1), {})
    assert step(at(4, STABLE, {}), of(1, 2), taken=of(2)) == waiting
    assert step(at(5, UNRELEASED, of(1)), of(1, 2), taken=of(2))[2:] == waiting[2:]  # type: ignore[index]
    assert step(at(5, UNRELEASED, of(1)), of(1, 2)) == (5, 5, STABLE, of(1, 2), {})


def test_a_member_gets_no_topic_that_it_does_not_subscribe_to() -> None:
    """Whatever its target assignment says."""
    target = {**of(1), **of(1, topic=U)}
    assert step(at(4, STABLE, {}), target) == (5, 4, STABLE, of(1), {})


def test_a_member_that_unsubscribes_gives_up_the_topic_in_its_epoch() -> None:
    """Though its target assignment is not a newer one."""
    has = {**of(1), **of(1, topic=U)}
    stable = at(5, STABLE, has)
    assert step(stable, has, changed=True) == (5, 4, UNREVOKED, of(1), of(1, topic=U))
    assert step(stable, has, of(1), changed=True) == (5, 4, STABLE, of(1), {})
    assert step(stable, has) == tuple(stable)
    revoking = at(5, UNREVOKED, has, of(2))
    both = {**of(2), **of(1, topic=U)}
    assert step(revoking, has, changed=True) == (5, 4, UNREVOKED, of(1), both)


@pytest.mark.parametrize(("owned", "starts_anew"), [(None, True), (of(1), True), ({}, False)])
def test_a_member_in_an_unknown_state_goes_on_if_it_has_nothing(
    owned: Assignment | None, starts_anew: bool
) -> None:
    """A later release wrote that state."""
    found = step(at(4, MemberState.UNKNOWN, of(1)), of(1, 2), owned)
    assert found == (None if starts_anew else (5, 4, STABLE, of(1, 2), {}))
