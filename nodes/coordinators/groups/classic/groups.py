"""All classic groups of a partition: the part of the group coordinator for the classic protocol.

What is remembered is the last record of each group, and only `replay` changes it. A group works on
what it was told since: who joined, and waits. A broker that becomes the leader begins with what is
remembered. A group that is stable or empty is as its record says (but for the time when it became
stable).

Times are arguments, and member ids come from the given random numbers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic import answers, checks, joining, leaving, sessions, syncing
from nodes.coordinators.groups.classic.group import ClassicGroup
from nodes.coordinators.groups.classic.rebalance import (
    complete,
    initial_delay_ended,
    prepare,
    start_session,
    sync_time_ended,
)
from nodes.coordinators.groups.classic.records import (
    GROUP_METADATA,
    GroupMetadataValue,
    group_record,
    group_tombstone,
)
from nodes.coordinators.groups.classic.requests import (
    UNKNOWN_MEMBER_ID,
    Identity,
    Join,
    Leaver,
    MemberProtocol,
    Sync,
)
from nodes.coordinators.groups.classic.step import Step, TimerKey, TimerKind
from nodes.coordinators.groups.kind import Committer, ListedGroup, Retention
from nodes.coordinators.groups.settings import ClassicSettings
from nodes.coordinators.machine import Answer, Effects, Now, Position, Token
from nodes.coordinators.records import CoordinatorRecord, RecordTypes
from nodes.coordinators.timers import Timers

GROUP_TYPE: Final = "Classic"

_TYPES: Final = RecordTypes([GROUP_METADATA])


class ClassicGroups:
    """The classic groups; a GroupKind. An operation about an unknown group says so."""

    def __init__(self, settings: ClassicSettings, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._remembered: dict[str, GroupMetadataValue] = {}
        self._groups: dict[str, ClassicGroup] = {}
        self._timers: Timers[TimerKey] = Timers()

    @property
    def remembered(self) -> Mapping[str, GroupMetadataValue]:
        """What the log says of each group."""
        return self._remembered

    @property
    def groups(self) -> Mapping[str, ClassicGroup]:
        """The groups as they are now."""
        return self._groups

    def join(self, request: Join, token: Token, now: Now) -> Effects:
        """JoinGroup. The answer comes at the end of the rebalance."""
        step = self._step(now)
        request = request._replace(protocols=_distinct(request.protocols))
        group_id, member_id, _ = request.who
        refusal = joining.refusal(request, step)
        group = self._groups.get(group_id)
        created = group is None
        if group is None and refusal is ErrorCode.none and member_id != UNKNOWN_MEMBER_ID:
            refusal = ErrorCode.unknown_member_id
        if refusal is not ErrorCode.none:
            step.answer(token, answers.join_error(refusal, member_id))
            return step.effects()
        group = group or ClassicGroup(group_id, state_since_wall_ms=now.wall_ms)
        joining.join(group, request, token, self._new_id, step)
        if created and (group.members or group.pending_joins):
            self._groups[group_id] = group
            step.records.append(group_record(group_id, _new_group(now)))
        return step.effects()

    def sync(self, request: Sync, token: Token, now: Now) -> Effects:
        """SyncGroup. The answer comes when the leader's assignment is there."""
        step = self._step(now)
        group = self._groups.get(request.who.group_id)
        if group is None:
            step.answer(token, answers.sync_error(_unknown(request.who.group_id)))
        else:
            syncing.sync(group, request, token, step)
        return step.effects()

    def heartbeat(self, who: Identity, generation: int, token: Token, now: Now) -> Effects:
        """Heartbeat."""
        step = self._step(now)
        group = self._groups.get(who.group_id)
        error = (
            _unknown(who.group_id)
            if group is None
            else sessions.heartbeat(group, who, generation, step)
        )
        step.answer(token, {"error_code": error})
        return step.effects()

    def leave(self, group_id: str, leavers: Sequence[Leaver], token: Token, now: Now) -> Effects:
        """LeaveGroup. Clients before version 3 leave alone, as one leaver."""
        step = self._step(now)
        group = self._groups.get(group_id)
        if not group_id:
            error = ErrorCode.invalid_group_id
            step.answer(token, {"error_code": error, "members": ()})
            return step.effects()
        outcomes = (
            [ErrorCode.unknown_member_id for _ in leavers]
            if group is None
            else leaving.leave(group, leavers, step)
        )
        step.answer(token, answers.left(zip(leavers, outcomes, strict=True)))
        return step.effects()

    def refusal(self, request: Join, now: Now) -> ErrorCode:
        """Why a JoinGroup cannot be served, whatever the group is."""
        return joining.refusal(request, self._step(now))

    def interrupted(self, group_id: str) -> tuple[tuple[Token, Answer], ...]:
        """The answers to all who wait in the group: they shall join again. The group must exist."""
        error = ErrorCode.rebalance_in_progress
        group = self._groups[group_id]
        joins = ((token, answers.join_error(error, name)) for name, token in group.joined.items())
        syncs = ((token, answers.sync_error(error)) for token in group.syncing.values())
        return (*joins, *syncs)

    def adopt(self, group: ClassicGroup, now: Now, rebalances: bool) -> Effects | None:
        """Serve a stable group that was of the other protocol.

        `rebalances`: its members must join again. None if it has too many members. The caller
        appends the records.
        """
        if len(group.members) > self._settings.max_size:
            return None
        step = self._step(now)
        self._groups[group.group_id] = group
        step.records.append(group_record(group.group_id, group.value()))
        for member in group.members.values():
            start_session(group, member, step)
        if rebalances:
            prepare(group, step)
        return step.effects()

    def describe(self, group_id: str) -> Answer:
        """One group, as a row of DescribeGroups; the group must exist."""
        return answers.described(self._groups[group_id])

    def has(self, group_id: str) -> bool:
        """Whether a classic group has this id."""
        return group_id in self._groups

    def check_commit(self, committer: Committer, now: Now) -> ErrorCode:
        """Whether offsets may be committed. A commit outside of a transaction is a sign of life."""
        group = self._groups[committer.group_id]
        error = checks.check_commit(group, committer)
        member = group.members.get(committer.member_id)
        if error is ErrorCode.none and member is not None and not committer.transactional:
            start_session(group, member, self._step(now))
        return error

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether offsets may be read: by anybody."""
        return ErrorCode.none

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        """Whether single offsets may be deleted."""
        return checks.check_offset_delete(self._groups[group_id])

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether members read `topic`, as far as that is known."""
        return checks.subscribes(self._groups[group_id], topic)

    def retention(self, group_id: str) -> Retention | None:
        """From when on offsets grow old; None: none may expire now."""
        return checks.retention(self._groups[group_id])

    def check_delete(self, group_id: str) -> ErrorCode:
        """Whether the group may be deleted."""
        return checks.check_delete(self._groups[group_id])

    def tombstones(self, group_id: str) -> tuple[CoordinatorRecord, ...]:
        """The record that removes the group."""
        return (group_tombstone(group_id),)

    def listing(self) -> Iterable[ListedGroup]:
        """Every classic group."""
        for group_id, group in self._groups.items():
            yield ListedGroup(group_id, group.protocol_type or "", group.state.value, GROUP_TYPE)

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        """Remember a group's record, or forget the group. Raises RecordError."""
        decoded = _TYPES.decode(record)
        if decoded is None:
            return
        group_id = decoded.key.group
        if decoded.value is None:
            self._remembered.pop(group_id, None)
            self._forget(group_id)
        else:
            self._remembered[group_id] = decoded.value

    def loaded(self, now: Now) -> Effects:
        """Begin with what is remembered: every session begins anew.

        A group with too many members rebalances, because group.max.size may be lower than it was.
        """
        step = self._step(now)
        self._groups = {
            group_id: ClassicGroup.remembered(group_id, value)
            for group_id, value in self._remembered.items()
        }
        for group in self._groups.values():
            for member in group.members.values():
                start_session(group, member, step)
            if len(group.members) > self._settings.max_size:
                prepare(group, step)
        return step.effects()

    def deadline_ms(self) -> float | None:
        """When `tick` is due."""
        return self._timers.next_ms()

    def tick(self, now: Now) -> Effects:
        """End sessions and rebalances whose time is over."""
        step = self._step(now)
        for key in self._timers.due(now.ms):
            group = self._groups[key.group_id]
            match key.kind:
                case TimerKind.SESSION:
                    sessions.session_ended(group, key.member_id, step)
                case TimerKind.INITIAL_DELAY:
                    initial_delay_ended(group, step)
                case TimerKind.JOIN:
                    complete(group, step)
                case TimerKind.SYNC:
                    sync_time_ended(group, step)
        return step.effects()

    def abandoned(self, token: Token) -> None:
        """Nothing changes: a member that waited stays, as in Kafka, until its session ends.

        It may come back by another connection, with its member id.
        """

    def _step(self, now: Now) -> Step:
        return Step(now, self._settings, self._timers)

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"

    def _forget(self, group_id: str) -> None:
        group = self._groups.pop(group_id, None)
        for key in _timer_keys(group) if group else ():
            self._timers.cancel(key)


def _timer_keys(group: ClassicGroup) -> Iterator[TimerKey]:
    for kind in TimerKind:
        if kind is not TimerKind.SESSION:
            yield TimerKey(kind, group.group_id)
    for member_id in (*group.members, *group.pending_joins):
        yield TimerKey(TimerKind.SESSION, group.group_id, member_id)


def _new_group(now: Now) -> GroupMetadataValue:
    """What is remembered of a group from its first join on."""
    return ClassicGroup("", state_since_wall_ms=now.wall_ms).value()


def _distinct(protocols: Iterable[MemberProtocol]) -> tuple[MemberProtocol, ...]:
    """Without protocols that an earlier one has the name of."""
    by_name: dict[str, MemberProtocol] = {}
    for each in protocols:
        by_name.setdefault(each.name, each)
    return tuple(by_name.values())


def _unknown(group_id: str) -> ErrorCode:
    """Why a request about a group that is not there fails."""
    return ErrorCode.unknown_member_id if group_id else ErrorCode.invalid_group_id
