"""A heartbeat: a member joins or says that it is there, and is brought a step closer to its target.

1. The member is found or made, and what it says of itself is taken over.
2. If that changes the group, a group epoch and a target assignment are made.
3. The member is reconciled with its target assignment.
"""

from dataclasses import replace

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer.advance import advance, replaced
from nodes.coordinators.groups.consumer.assignors.spec import Assignment
from nodes.coordinators.groups.consumer.draft import Draft
from nodes.coordinators.groups.consumer.group import ConsumerGroup
from nodes.coordinators.groups.consumer.member import (
    STATIC_LEAVE_EPOCH,
    CurrentAssignment,
    Member,
)
from nodes.coordinators.groups.consumer.operation import Operation
from nodes.coordinators.groups.consumer.records import (
    NOT_CLASSIC,
    ConsumerGroupMemberMetadataValue,
)
from nodes.coordinators.groups.consumer.requests import UNCHANGED, Heartbeat, Refusal


def heartbeat(draft: Draft, request: Heartbeat, op: Operation) -> tuple[Member, bool]:
    """Do a regular heartbeat, also one that joins: the member, and whether to tell its assignment.

    Raises Refusal.
    """
    group = draft.group
    check_room(group, request.member_id, op)
    member_id = request.member_id or op.new_id()
    before = _member(draft, request, member_id)
    told = CurrentAssignment() if before is None else before.current
    metadata = _told(request, None if before is None else before.metadata)
    member = advance(draft, before, member_id, metadata, request.owned, op)
    op.keep_session(draft.group_id, member)
    changed = member.current.assigned != told.assigned
    return member, request.joins or request.is_full or changed


def check_room(group: ConsumerGroup, member_id: str, op: Operation) -> None:
    """Raise Refusal if the group is full, and this is none of its members."""
    if len(group.members) >= op.settings.max_size and member_id not in group.members:
        raise Refusal(
            ErrorCode.group_max_size_reached,
            "The consumer group has reached its maximum capacity of"
            f" {op.settings.max_size} members.",
        )


def _member(draft: Draft, request: Heartbeat, member_id: str) -> Member | None:
    """The member; None if it is new. A static member that came back is in its old place by now."""
    group = draft.group
    if request.instance_id is None:
        member = group.members.get(member_id)
        if member is None and not request.joins:
            raise unknown_member(member_id, draft.group_id)
        if member is not None:
            _check_epoch(member, request)
        return member
    member = group.static_member(request.instance_id)
    if not request.joins:
        member = checked_static_member(member, request)
        _check_epoch(member, request)
        return member
    if member is None:
        return group.members.get(member_id)
    if member.current.epoch != STATIC_LEAVE_EPOCH and not member.classic:
        raise Refusal(
            ErrorCode.unreleased_instance_id,
            f"Static member {member_id} with instance id {request.instance_id} cannot join the"
            f" group because the instance id is owned by {member.member_id} member.",
        )
    return replaced(draft, member, member_id)


def unknown_member(member_id: str, group_id: str) -> Refusal:
    """No member has this id."""
    return Refusal(
        ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group_id}."
    )


def checked_static_member(member: Member | None, request: Heartbeat) -> Member:
    """The member of the request's instance id, if it still has that. Raises Refusal."""
    if member is None:
        raise Refusal(ErrorCode.unknown_member_id, f"Instance id {request.instance_id} is unknown.")
    if member.member_id != request.member_id:
        raise Refusal(
            ErrorCode.fenced_instance_id,
            f"Static member {request.member_id} with instance id {request.instance_id}"
            f" was fenced by member {member.member_id}.",
        )
    return member


def _check_epoch(member: Member, request: Heartbeat) -> None:
    """The member is in its epoch, or joins. Or it did not hear of its epoch: the answer was lost.

    That is so if it is in the epoch before, and has nothing that it was not given since.
    """
    epoch = member.current.epoch
    if request.joins or request.member_epoch == epoch:
        return
    lost = request.member_epoch == member.current.previous_epoch and request.member_epoch < epoch
    if lost and _is_subset(request.owned, member.current.assigned):
        return
    order = "greater" if request.member_epoch > epoch else "smaller"
    raise Refusal(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {order} member epoch ({request.member_epoch}) than the"
        f" one known by the group coordinator ({epoch}). The member must abandon all its partitions"
        " and rejoin.",
    )


def _is_subset(owned: Assignment | None, assigned: Assignment) -> bool:
    if owned is None:
        return False
    return all(has <= assigned.get(topic, frozenset()) for topic, has in owned.items())


def _told(
    request: Heartbeat, before: ConsumerGroupMemberMetadataValue | None
) -> ConsumerGroupMemberMetadataValue:
    """What the member says of itself, with what it said before where it says nothing."""
    old = ConsumerGroupMemberMetadataValue() if before is None else before
    timeout_ms = request.rebalance_timeout_ms
    names = request.topic_names
    return replace(
        old,
        instance_id=_or(request.instance_id, old.instance_id),
        rack_id=_or(request.rack_id, old.rack_id),
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=(
            old.subscribed_topic_names if names is None else tuple(sorted(set(names)))
        ),
        subscribed_topic_regex=_or(request.topic_regex, old.subscribed_topic_regex),
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == UNCHANGED else timeout_ms,
        server_assignor=_or(request.assignor, old.server_assignor),
        classic_member_metadata=NOT_CLASSIC,
    )


def _or(new: str | None, old: str | None) -> str | None:
    return old if new is None else new
