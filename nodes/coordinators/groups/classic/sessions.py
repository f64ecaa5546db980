"""Sessions: a member that is silent for its session time-out is removed."""

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.group import ClassicGroup, GroupState
from nodes.coordinators.groups.classic.rebalance import (
    complete,
    rebalance_or_complete,
    remove,
    start_session,
)
from nodes.coordinators.groups.classic.requests import Identity
from nodes.coordinators.groups.classic.step import Step


def heartbeat(group: ClassicGroup, who: Identity, generation: int, step: Step) -> ErrorCode:
    """A member lives. REBALANCE_IN_PROGRESS tells it to join again."""
    error = group.check_member(who)
    if error is not ErrorCode.none:
        return error
    if generation != group.generation:
        return ErrorCode.illegal_generation
    start_session(group, group.members[who.member_id], step)
    gathers = group.state is GroupState.PREPARING_REBALANCE
    return ErrorCode.rebalance_in_progress if gathers else ErrorCode.none


def session_ended(group: ClassicGroup, member_id: str, step: Step) -> None:
    """A member was silent for too long, unless it waits for the coordinator."""
    member = group.members.get(member_id)
    waits = member_id in group.joined or member_id in group.syncing
    if member is not None and waits and not member.is_new:
        return  # its session begins anew when it is answered
    remove(group, member_id, step)
    if group.state is GroupState.PREPARING_REBALANCE:
        if group.all_have_joined:
            complete(group, step)
    elif member is not None:
        rebalance_or_complete(group, step)
