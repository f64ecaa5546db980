"""What every request of a member comes to: it is remembered, and brought a step to its target.

If what the member says changes the group, or the topics changed, a group epoch and a target
assignment are made first.
"""

from typing import Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer.assignors.spec import Assignment
from nodes.coordinators.groups.consumer.draft import Draft
from nodes.coordinators.groups.consumer.member import CurrentAssignment, Member, MemberState
from nodes.coordinators.groups.consumer.operation import Operation
from nodes.coordinators.groups.consumer.reconciliation import Goal, reconcile
from nodes.coordinators.groups.consumer.records import ConsumerGroupMemberMetadataValue
from nodes.coordinators.groups.consumer.requests import Refusal
from nodes.coordinators.groups.consumer.subscriptions import update_epoch, update_regexes
from nodes.coordinators.groups.consumer.targets import update_targets


def advance(
    draft: Draft,
    before: Member | None,
    member_id: str,
    metadata: ConsumerGroupMemberMetadataValue,
    owned: Assignment | None,
    op: Operation,
) -> Member:
    """The member as it is now. `before`: the member as it was; None if it is new.

    Raises Refusal.
    """
    group = draft.group
    if before is not None and before.metadata == metadata:
        member = before
    else:
        member = draft.put_member(member_id, metadata)
    old = _NOTHING if before is None else _subscription(before)
    subscription_changed = old != _subscription(member)
    regexes_changed = update_regexes(draft, op)
    changed = subscription_changed or regexes_changed or group.epoch == 0
    update_epoch(draft, op, changed=changed)
    if draft.group.epoch > draft.group.assignment_epoch:
        update_targets(draft, op.settings, op.topics)
    current = _reconcile(draft, member, owned, op, subscription_changed)
    group.checked_version = op.topics.version
    return member._replace(current=current)


def replaced(draft: Draft, old: Member, member_id: str) -> Member:
    """A static member comes back with a new member id: it takes over all that the old one had."""
    target = draft.group.target(old.member_id)
    draft.remove_member(old.member_id, replaced=True)
    current = old.current._replace(epoch=0, previous_epoch=0)
    draft.put_member(member_id, old.metadata)
    draft.put_target(member_id, target)
    draft.put_current(member_id, current)
    return draft.group.members[member_id]


_NOTHING: Final[tuple[tuple[str, ...], str | None]] = ((), None)
"""Of a member that is new: if it reads nothing, it changes nothing, as in Kafka."""


def _subscription(member: Member) -> tuple[tuple[str, ...], str | None]:
    return member.metadata.subscribed_topic_names, member.regex


def _reconcile(
    draft: Draft,
    member: Member,
    owned: Assignment | None,
    op: Operation,
    subscription_changed: bool,
) -> CurrentAssignment:
    group = draft.group
    current = group.members[member.member_id].current
    if not subscription_changed and member.reconciled_to(group.assignment_epoch):
        return current
    topics = (op.topics.topic(name) for name in group.topic_names(member))
    goal = Goal(
        epoch=group.assignment_epoch,
        target=group.target(member.member_id),
        subscribed=frozenset(each.topic_id for each in topics if each is not None),
        is_free=lambda topic, at: group.holder(topic, at) in (None, member.member_id),
    )
    following = reconcile(current, goal, owned, subscription_changed=subscription_changed)
    if following is None:
        raise Refusal(
            ErrorCode.fenced_member_epoch,
            "The consumer group member is in a unknown state. The member must abandon all its"
            " partitions and rejoin.",
        )
    if following != current:
        draft.put_current(member.member_id, following)
        if following.state is MemberState.UNREVOKED_PARTITIONS and not member.classic:
            timeout_ms = member.metadata.rebalance_timeout_ms
            op.limit("rebalance", draft.group_id, member.member_id, timeout_ms)
    return following
