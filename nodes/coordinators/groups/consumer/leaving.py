"""Members that leave: by themselves, or because their time is over."""

from nodes.coordinators.groups.consumer.assignors.spec import NOTHING
from nodes.coordinators.groups.consumer.draft import Draft
from nodes.coordinators.groups.consumer.heartbeat import checked_static_member, unknown_member
from nodes.coordinators.groups.consumer.member import STATIC_LEAVE_EPOCH
from nodes.coordinators.groups.consumer.operation import Operation, TimerKey
from nodes.coordinators.groups.consumer.requests import Heartbeat
from nodes.coordinators.groups.consumer.subscriptions import remove_unused_regexes


def leave(draft: Draft, request: Heartbeat, op: Operation) -> None:
    """The member leaves. A static member that will come back keeps its place. Raises Refusal."""
    group = draft.group
    if request.instance_id is None:
        if request.member_id not in group.members:
            raise unknown_member(request.member_id, draft.group_id)
        remove(draft, request.member_id, op)
        return
    member = checked_static_member(group.static_member(request.instance_id), request)
    if request.member_epoch != STATIC_LEAVE_EPOCH:
        remove(draft, member.member_id, op)
        return
    left = member.current._replace(epoch=STATIC_LEAVE_EPOCH, pending_revocation=NOTHING)
    draft.put_current(member.member_id, left)


def remove(draft: Draft, member_id: str, op: Operation) -> None:
    """Remove the member, with regular expressions that only it had. A new group epoch begins."""
    draft.remove_member(member_id)
    remove_unused_regexes(draft)
    names = draft.group.subscribed_names()
    draft.put_epoch(draft.group.epoch + 1, op.hashes.group_hash(names, op.topics))
    op.forget(draft.group_id, member_id)


def time_is_over(draft: Draft, key: TimerKey, op: Operation) -> None:
    """The member is removed, unless it has nothing to revoke by now."""
    member = draft.group.members.get(key.member_id)
    if member is None:
        return
    if key.kind != "rebalance" or member.revokes:
        remove(draft, key.member_id, op)
