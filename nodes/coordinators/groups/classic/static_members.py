"""Static members (KIP-345): a member that restarts takes its old place, by its instance id.

It has a new member id then, and the old one is fenced. The group does not rebalance if it is stable
and keeps its protocol; the new id is remembered at once (KAFKA-10284). If the member that returns
is the leader, it must not assign anew: since version 9 the answer says so (KIP-814), earlier it
names the old id as the leader.

If the old id never asked for its assignment, the new one has to. Unlike that, Kafka 4.2 goes on to
wait for the old id, and when the time to sync is over, it rebalances the group once more.
"""

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic import answers
from nodes.coordinators.groups.classic.group import ClassicGroup, GroupState, Member
from nodes.coordinators.groups.classic.rebalance import (
    complete_if_all_joined,
    prepare,
    rebalance_or_complete,
    start_session,
)
from nodes.coordinators.groups.classic.records import group_record
from nodes.coordinators.groups.classic.requests import SKIP_ASSIGNMENT_SINCE, Join
from nodes.coordinators.groups.classic.step import Step, TimerKind
from nodes.coordinators.machine import Answer, Token


def replace(group: ClassicGroup, request: Join, member_id: str, token: Token, step: Step) -> None:
    """A static member of the group joins without a member id; it becomes `member_id`."""
    assert request.who.instance_id is not None
    old_id = group.static_members[request.who.instance_id]
    old_leader = group.leader
    member = _rename(group, old_id, member_id, step)
    start_session(group, member, step)
    update(group, member, request, token, step)
    match group.state:
        case GroupState.STABLE if group.select_protocol() == group.protocol:
            del group.joined[member_id]
            step.records.append(group_record(group.group_id, group.value()))
            step.answer(token, _rejoined(group, member_id, old_leader, request.version))
        case GroupState.STABLE:
            rebalance_or_complete(group, step)
        case GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id.
            prepare(group, step)
        case _:
            complete_if_all_joined(group, step)


def update(group: ClassicGroup, member: Member, request: Join, token: Token, step: Step) -> None:
    """What a member that joins again says of itself counts from now on; `token` waits."""
    group.set_protocols(member, request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    earlier = group.joined.get(member.member_id)
    if earlier is not None:
        error = ErrorCode.rebalance_in_progress
        step.answer(earlier, answers.join_error(error, member.member_id))
    group.joined[member.member_id] = token


def _rename(group: ClassicGroup, old_id: str, new_id: str, step: Step) -> Member:
    """Give a member a new id, in its old place. What the old id asked is answered: it is fenced."""
    fenced = ErrorCode.fenced_instance_id
    if (token := group.joined.pop(old_id, None)) is not None:
        step.answer(token, answers.join_error(fenced, old_id))
    if (token := group.syncing.pop(old_id, None)) is not None:
        step.answer(token, answers.sync_error(fenced))
    step.cancel(TimerKind.SESSION, group.group_id, old_id)
    return group.rename(old_id, new_id)


def _rejoined(group: ClassicGroup, member_id: str, old_leader: str | None, version: int) -> Answer:
    """The member is back in the generation that goes on."""
    if version >= SKIP_ASSIGNMENT_SINCE:
        leads = group.leader == member_id
        return answers.joined(group, member_id, skip_assignment=leads)
    return {**answers.joined(group, member_id), "leader": old_leader or "", "members": ()}
