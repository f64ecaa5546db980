"""LeaveGroup: members leave, or an administrator removes static members by their instance ids."""

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.group import ClassicGroup, GroupState
from nodes.coordinators.groups.classic.rebalance import rebalance_or_complete, remove
from nodes.coordinators.groups.classic.requests import UNKNOWN_MEMBER_ID, Identity, Leaver
from nodes.coordinators.groups.classic.step import Step


def leave(group: ClassicGroup, leavers: Sequence[Leaver], step: Step) -> list[ErrorCode]:
    """Remove members; one rebalance follows for all of them. Returns each one's outcome."""
    outcomes = [_leave(group, each, step) for each in leavers]
    if ErrorCode.none in outcomes and group.state is not GroupState.EMPTY:
        rebalance_or_complete(group, step)
    return outcomes


def _leave(group: ClassicGroup, leaver: Leaver, step: Step) -> ErrorCode:
    member_id = leaver.member_id
    if member_id == UNKNOWN_MEMBER_ID:
        instance_id = leaver.instance_id
        if instance_id is None or instance_id not in group.static_members:
            return ErrorCode.unknown_member_id
        member_id = group.static_members[instance_id]
    elif member_id not in group.pending_joins:
        error = group.check_member(Identity(group.group_id, member_id, leaver.instance_id))
        if error is not ErrorCode.none:
            return error
    remove(group, member_id, step)
    return ErrorCode.none
