"""The next step of a member from what it has to its target assignment (KIP-848).

1. It revokes what it shall not have. Until it says that it did, it stays in its epoch
   (UNREVOKED_PARTITIONS), and nobody else gets these partitions.
2. It moves to the epoch of the target assignment, and gets the partitions that nobody else has.
3. While others still have some, it waits for them (UNRELEASED_PARTITIONS).
"""

from collections.abc import Callable, Container
from dataclasses import dataclass
from uuid import UUID

from nodes.coordinators.groups.consumer.assignors.spec import NOTHING, Assignment
from nodes.coordinators.groups.consumer.member import CurrentAssignment, MemberState


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a member shall get to."""

    epoch: int
    target: Assignment
    subscribed: Container[UUID]
    """The topics that it subscribes to. It gets no others, whatever the target assignment says."""
    is_free: Callable[[UUID, int], bool]
    """Whether no other member has this partition."""


def reconcile(
    current: CurrentAssignment,
    goal: Goal,
    owned: Assignment | None,
    *,
    subscription_changed: bool,
) -> CurrentAssignment | None:
    """The member's next assignment, which may be the same; None if it must start anew.

    `owned`: the partitions that the member says it has; None if it did not say. Only a member in a
    state that is not known must start anew, unless it says that it has nothing.
    """
    match current.state:
        case MemberState.STABLE if current.epoch == goal.epoch:
            return _unsubscribed(current, goal, owned) if subscription_changed else current
        case MemberState.UNREVOKED_PARTITIONS if _owns(owned, current.pending_revocation):
            return _unsubscribed(current, goal, owned) if subscription_changed else current
        case MemberState.UNKNOWN:
            if owned is None or owned:
                return None
            return _next(current._replace(epoch=goal.epoch), goal, owned, current.epoch)
        case _:
            return _next(current, goal, owned, current.epoch)


def _next(
    current: CurrentAssignment, goal: Goal, owned: Assignment | None, previous_epoch: int
) -> CurrentAssignment:
    assigned: dict[UUID, frozenset[int]] = {}
    revoked: dict[UUID, frozenset[int]] = {}
    added: dict[UUID, frozenset[int]] = {}
    waits = False
    for topic in goal.target.keys() | current.assigned.keys():
        wanted = goal.target.get(topic, frozenset()) if topic in goal.subscribed else frozenset()
        has = current.assigned.get(topic, frozenset())
        mine = current.pending_revocation.get(topic, frozenset())
        free = frozenset(p for p in wanted - has if p in mine or goal.is_free(topic, p))
        waits = waits or len(free) < len(wanted - has)
        _put(assigned, topic, has & wanted)
        _put(revoked, topic, has - wanted)
        _put(added, topic, free)
    if revoked and _owns(owned, revoked):
        return CurrentAssignment(
            current.epoch, previous_epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoked
        )
    for topic, partitions in added.items():
        assigned[topic] = assigned.get(topic, frozenset()) | partitions
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return CurrentAssignment(goal.epoch, previous_epoch, state, assigned, NOTHING)


def _unsubscribed(
    current: CurrentAssignment, goal: Goal, owned: Assignment | None
) -> CurrentAssignment:
    """Take away the topics that the member does not subscribe to any more, and nothing else."""
    gone = {t: held for t, held in current.assigned.items() if t not in goal.subscribed}
    if not gone:
        return current
    left = {t: held for t, held in current.assigned.items() if t in goal.subscribed}
    pending = dict(current.pending_revocation)
    for topic, partitions in gone.items():
        pending[topic] = pending.get(topic, frozenset()) | partitions
    if _owns(owned, pending):
        return current._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=left, pending_revocation=pending
        )
    return current._replace(assigned=left)


def _owns(owned: Assignment | None, revoked: Assignment) -> bool:
    """Whether the member may still have any of these partitions."""
    if owned is None:
        return True
    return any(revoked.get(topic, frozenset()) & has for topic, has in owned.items())


def _put(table: dict[UUID, frozenset[int]], topic: UUID, partitions: frozenset[int]) -> None:
    if partitions:
        table[topic] = partitions
