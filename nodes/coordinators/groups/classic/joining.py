"""JoinGroup: a member comes, for the first time or again.

A client that is new gets a member id first, and comes back with it (KIP-394): so nobody joins who
does not know its id. A static member has its place by its instance id (`static_members`).

Unlike Kafka, a request that another one of the same member replaces is answered
(REBALANCE_IN_PROGRESS), and so is the SyncGroup of a member that is removed: nobody waits for ever.
"""

from collections.abc import Callable
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic import answers, static_members
from nodes.coordinators.groups.classic.group import ClassicGroup, GroupState, Member
from nodes.coordinators.groups.classic.rebalance import rebalance_or_complete, remove
from nodes.coordinators.groups.classic.requests import (
    MEMBER_ID_REQUIRED_SINCE,
    UNKNOWN_MEMBER_ID,
    Join,
)
from nodes.coordinators.groups.classic.step import Step, TimerKey, TimerKind
from nodes.coordinators.machine import Token

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""How long one may wait to join who was in no generation yet, as in Kafka."""

LONGEST_TEXT: Final = 32_767 - 37
"""Bytes. Kafka reads longer strings, fails to write them, and says UNKNOWN_SERVER_ERROR."""


def refusal(request: Join, step: Step) -> ErrorCode:
    """Why a request cannot be served, whatever the group is."""
    if not request.who.group_id:
        return ErrorCode.invalid_group_id
    if not _can_be_written(request):
        return ErrorCode.invalid_request
    least, most = step.settings.min_session_timeout_ms, step.settings.max_session_timeout_ms
    fits = least <= request.session_timeout_ms <= most
    return ErrorCode.none if fits else ErrorCode.invalid_session_timeout


def _can_be_written(request: Join) -> bool:
    """Whether each string fits into the group's record, a member id with its random part too."""
    texts = [request.who.group_id, request.who.instance_id or "", request.client.id]
    texts += [request.protocol_type, *(each.name for each in request.protocols)]
    return all(len(each.encode()) <= LONGEST_TEXT for each in texts)


def join(
    group: ClassicGroup, request: Join, token: Token, new_id: Callable[[str], str], step: Step
) -> None:
    """Let a member join. `new_id` makes a member id that begins with its argument."""
    member_id = request.who.member_id
    if not _has_room(group, member_id, step):
        remove(group, member_id, step)
        step.answer(token, answers.join_error(ErrorCode.group_max_size_reached))
    elif not group.supports(request.protocol_type, request.protocols):
        error = ErrorCode.inconsistent_group_protocol
        step.answer(token, answers.join_error(error, member_id))
    elif member_id == UNKNOWN_MEMBER_ID:
        _join_new(group, request, token, new_id, step)
    elif member_id in group.pending_joins:
        _join_pending(group, request, token, step)
    elif (error := group.check_member(request.who)) is not ErrorCode.none:
        step.answer(token, answers.join_error(error, member_id))
    else:
        _join_again(group, group.members[member_id], request, token, step)


def _has_room(group: ClassicGroup, member_id: str, step: Step) -> bool:
    """Whether one more may join. In a rebalance those who are late lose their place."""
    most = step.settings.max_size
    match group.state:
        case GroupState.EMPTY:
            return True
        case GroupState.PREPARING_REBALANCE:
            return member_id in group.joined or len(group.joined) < most
        case _:
            return member_id in group.members or len(group.members) < most


def _join_new(
    group: ClassicGroup, request: Join, token: Token, new_id: Callable[[str], str], step: Step
) -> None:
    instance_id = request.who.instance_id
    member_id = new_id(request.client.id if instance_id is None else instance_id)
    if instance_id is not None and instance_id in group.static_members:
        static_members.replace(group, request, member_id, token, step)
    elif instance_id is None and request.version >= MEMBER_ID_REQUIRED_SINCE:
        group.pending_joins.add(member_id)
        key = TimerKey(TimerKind.SESSION, group.group_id, member_id)
        step.schedule(key, request.session_timeout_ms)
        step.answer(token, answers.join_error(ErrorCode.member_id_required, member_id))
    else:
        _add(group, request, member_id, token, step)


def _join_pending(group: ClassicGroup, request: Join, token: Token, step: Step) -> None:
    if request.who.instance_id is not None:
        # An id that was given to a dynamic member. Kafka fails with an exception.
        step.answer(token, answers.join_error(ErrorCode.unknown_server_error))
    else:
        _add(group, request, request.who.member_id, token, step)


def _add(group: ClassicGroup, request: Join, member_id: str, token: Token, step: Step) -> None:
    """Add a member that is new, and rebalance."""
    member = Member(
        member_id=member_id,
        instance_id=request.who.instance_id,
        client_id=request.client.id,
        client_host=request.client.host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
        is_new=True,
    )
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(member)
    group.joined[member_id] = token
    group.grew = group.grew or group.initial
    # It cannot send heartbeats while it waits. If its client is gone, it must not stay for ever.
    key = TimerKey(TimerKind.SESSION, group.group_id, member_id)
    step.schedule(key, NEW_MEMBER_TIMEOUT_MS)
    rebalance_or_complete(group, step)


def _join_again(
    group: ClassicGroup, member: Member, request: Join, token: Token, step: Step
) -> None:
    """A member joins again: for a rebalance, or to cause one, or because it missed an answer."""
    unchanged = member.protocols == request.protocols
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            rebalances = True
        case GroupState.COMPLETING_REBALANCE:
            rebalances = not unchanged
        case _:
            # A leader may ask for a rebalance without a change, when a topic has new partitions.
            rebalances = not unchanged or group.leader == member.member_id
    if rebalances:
        static_members.update(group, member, request, token, step)
        rebalance_or_complete(group, step)
    else:
        step.answer(token, answers.joined(group, member.member_id))
