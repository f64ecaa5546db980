"""SyncGroup: a member asks for its part of the leader's assignment, and the leader brings it."""

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic import answers
from nodes.coordinators.groups.classic.group import ClassicGroup, GroupState
from nodes.coordinators.groups.classic.rebalance import assign
from nodes.coordinators.groups.classic.requests import Sync
from nodes.coordinators.groups.classic.step import Step
from nodes.coordinators.machine import Token


def sync(group: ClassicGroup, request: Sync, token: Token, step: Step) -> None:
    """Answer with the assignment, now or when the leader brings it."""
    error = _refusal(group, request)
    if error is not ErrorCode.none:
        step.answer(token, answers.sync_error(error))
        return
    member_id = request.who.member_id
    group.pending_syncs.pop(member_id, None)
    if group.state is GroupState.STABLE:
        step.answer(token, answers.synced(group, member_id))
        return
    earlier = group.syncing.get(member_id)
    if earlier is not None:
        step.answer(earlier, answers.sync_error(ErrorCode.rebalance_in_progress))
    group.syncing[member_id] = token
    if group.leader == member_id:
        assign(group, dict(request.assignments), step)


def _refusal(group: ClassicGroup, request: Sync) -> ErrorCode:
    if group.state is GroupState.EMPTY:
        return ErrorCode.unknown_member_id
    error = group.check_member(request.who)
    if error is not ErrorCode.none:
        return error
    if request.generation != group.generation:
        return ErrorCode.illegal_generation
    if _differ(request.protocol_type, group.protocol_type):
        return ErrorCode.inconsistent_group_protocol
    if _differ(request.protocol, group.protocol):
        return ErrorCode.inconsistent_group_protocol
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def _differ(requested: str | None, known: str | None) -> bool:
    """Whether both are known, and are not the same; versions before 5 do not say them."""
    return requested is not None and known is not None and requested != known
