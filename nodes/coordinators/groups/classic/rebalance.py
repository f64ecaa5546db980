"""A rebalance: all members join again, then wait for the leader's assignment.

A rebalance of an empty group waits a while for more members (group.initial.rebalance.delay.ms), and
longer if some come. Every other one waits for its members, at most for the longest time that one of
them asks for. Who has not come by then is removed, except static members: these have until their
session ends. Who does not ask for its assignment in the same time is removed as well (KAFKA-9752,
KAFKA-12890). So a rebalance ends, and every request in it is answered.
"""

from typing import Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic import answers
from nodes.coordinators.groups.classic.group import ClassicGroup, GroupState, Member
from nodes.coordinators.groups.classic.records import group_record
from nodes.coordinators.groups.classic.step import Step, TimerKey, TimerKind

RETRY_MS: Final = 1_000
"""The least time after which a rebalance that nobody joined is looked at again."""


def can_rebalance(group: ClassicGroup) -> bool:
    """Whether no members are being gathered already."""
    return group.state is not GroupState.PREPARING_REBALANCE


def rebalance_or_complete(group: ClassicGroup, step: Step) -> None:
    """Start a rebalance, or end one that is complete."""
    if can_rebalance(group):
        prepare(group, step)
    else:
        complete_if_all_joined(group, step)


def prepare(group: ClassicGroup, step: Step) -> None:
    """Start a rebalance. Members that wait for an assignment are told to join again."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        _withdraw_assignments(group, step)
    group.pending_syncs.clear()
    group.initial = group.state is GroupState.EMPTY
    group.change_state(GroupState.PREPARING_REBALANCE, step.now)
    if group.initial:
        delay_ms = step.settings.initial_rebalance_delay_ms
        group.delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        step.schedule(TimerKey(TimerKind.INITIAL_DELAY, group.group_id), delay_ms)
    elif group.all_have_joined:
        complete(group, step)
    else:
        _await_members(group, step, group.rebalance_timeout_ms)


def complete_if_all_joined(group: ClassicGroup, step: Step) -> None:
    """End the wait for members if all are there; an initial rebalance waits on."""
    gathers = group.state is GroupState.PREPARING_REBALANCE and not group.initial
    if gathers and group.all_have_joined:
        complete(group, step)


def complete(group: ClassicGroup, step: Step) -> None:
    """Begin the next generation with those who joined, and answer them."""
    _stop_waiting_for_members(group, step)
    for member in list(group.members.values()):
        if member.member_id not in group.joined and member.instance_id is None:
            remove(group, member.member_id, step)
    if not group.elect_leader_among_joined() and group.members:
        # Only static members are left, and none is back: their sessions decide.
        _await_members(group, step, max(group.rebalance_timeout_ms, RETRY_MS))
        return
    group.initial = False
    group.begin_generation(step.now)
    if group.state is GroupState.EMPTY:
        step.records.append(group_record(group.group_id, group.value()))
        return
    for member in group.members.values():
        answer_join(group, member, step)
        start_session(group, member, step)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    step.schedule(TimerKey(TimerKind.SYNC, group.group_id), group.rebalance_timeout_ms)


def assign(group: ClassicGroup, assignments: dict[str, bytes], step: Step) -> None:
    """The leader's assignment is there: it is remembered, and everybody who waits gets it."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    # As Kafka: with the time at which the generation began.
    step.records.append(group_record(group.group_id, group.value()))
    group.change_state(GroupState.STABLE, step.now)
    for member_id, token in group.syncing.items():
        step.answer(token, answers.synced(group, member_id))
        start_session(group, group.members[member_id], step)
    group.syncing.clear()


def initial_delay_ended(group: ClassicGroup, step: Step) -> None:
    """The first rebalance has waited: it waits on if members came and time is left, or ends."""
    if group.grew and group.delay_left_ms > 0:
        group.grew = False
        delay_ms = min(step.settings.initial_rebalance_delay_ms, group.delay_left_ms)
        group.delay_left_ms -= delay_ms
        step.schedule(TimerKey(TimerKind.INITIAL_DELAY, group.group_id), delay_ms)
    else:
        complete(group, step)


def sync_time_ended(group: ClassicGroup, step: Step) -> None:
    """Members that did not ask for their assignment in time are removed, if there are any."""
    late = list(group.pending_syncs)
    for member_id in late:
        remove(group, member_id, step)
    if late:
        prepare(group, step)


def remove(group: ClassicGroup, member_id: str, step: Step) -> None:
    """Remove a member, or one that has not joined yet. What it asked is answered."""
    unknown = ErrorCode.unknown_member_id
    if (token := group.joined.pop(member_id, None)) is not None:
        step.answer(token, answers.join_error(unknown))
    if (token := group.syncing.pop(member_id, None)) is not None:
        step.answer(token, answers.sync_error(unknown))
    group.remove(member_id)
    step.cancel(TimerKind.SESSION, group.group_id, member_id)


def answer_join(group: ClassicGroup, member: Member, step: Step) -> None:
    """Tell a member that waits the generation that it is in."""
    if (token := group.joined.pop(member.member_id, None)) is not None:
        step.answer(token, answers.joined(group, member.member_id))


def start_session(group: ClassicGroup, member: Member, step: Step) -> None:
    """The member was heard, or may begin to be silent: its session time-out begins anew."""
    key = TimerKey(TimerKind.SESSION, group.group_id, member.member_id)
    step.schedule(key, member.session_timeout_ms)


def _withdraw_assignments(group: ClassicGroup, step: Step) -> None:
    for member in group.members.values():
        member.assignment = b""
    for member_id, token in group.syncing.items():
        step.answer(token, answers.sync_error(ErrorCode.rebalance_in_progress))
        start_session(group, group.members[member_id], step)
    group.syncing.clear()


def _await_members(group: ClassicGroup, step: Step, wait_ms: int) -> None:
    step.schedule(TimerKey(TimerKind.JOIN, group.group_id), wait_ms)


def _stop_waiting_for_members(group: ClassicGroup, step: Step) -> None:
    step.cancel(TimerKind.JOIN, group.group_id)
    step.cancel(TimerKind.INITIAL_DELAY, group.group_id)
