"""All consumer groups of a partition: the group coordinator's part for the consumer protocol.

The coordinator decides alone who shall have which partition (KIP-848). A member sends heartbeats,
and is told its part; what it has to give up goes to others when it said that it did.

Nobody waits for an answer here. Deadlines are sessions, and the time to revoke partitions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic import answers as classic_answers
from nodes.coordinators.groups.classic.group import ClassicGroup
from nodes.coordinators.groups.classic.requests import Identity, Join, Leaver, Sync
from nodes.coordinators.groups.consumer import answers, classic_members
from nodes.coordinators.groups.consumer.downgrade import downgraded, is_due, is_settled
from nodes.coordinators.groups.consumer.draft import Draft
from nodes.coordinators.groups.consumer.group import ConsumerGroup
from nodes.coordinators.groups.consumer.heartbeat import heartbeat
from nodes.coordinators.groups.consumer.leaving import leave, time_is_over
from nodes.coordinators.groups.consumer.member import Member
from nodes.coordinators.groups.consumer.operation import (
    GroupConfigs,
    Operation,
    Patterns,
    TimerKey,
)
from nodes.coordinators.groups.consumer.records import RECORD_TYPES
from nodes.coordinators.groups.consumer.requests import Heartbeat, Refusal, check
from nodes.coordinators.groups.consumer.targets import assignor_of
from nodes.coordinators.groups.consumer.upgrade import upgrade
from nodes.coordinators.groups.kind import Committer, ListedGroup, Retention
from nodes.coordinators.groups.settings import ConsumerSettings
from nodes.coordinators.groups.topics import TopicHashes, TopicsView
from nodes.coordinators.machine import Answer, Effects, Now, Position, Token
from nodes.coordinators.records import CoordinatorRecord, RecordTypes
from nodes.coordinators.timers import Timers

RECORD_NUMBERS: Final = tuple(each.number for each in RECORD_TYPES)

FIRST_MODERN_COMMIT: Final = 9
"""The first version of OffsetCommit that has the member epoch."""
MOST_ENDED: Final = 200
"""Members that one tick removes at most: what it writes is one batch."""

_TYPES: Final = RecordTypes(RECORD_TYPES)


Downgrade = Callable[[ClassicGroup, Now, bool], Effects | None]
"""Begins to serve a group by the classic protocol, if that can be; its records remember it. The
last argument: whether its members must join again."""


class ConsumerGroups:
    """The consumer groups; a GroupKind. `topics` gives the topics of the moment."""

    def __init__(
        self,
        settings: ConsumerSettings,
        topics: Callable[[], TopicsView],
        random: Random,
        downgrade: Downgrade | None = None,
        configs: GroupConfigs = lambda _: {},
    ) -> None:
        """`downgrade` takes a group over into the classic protocol; without it none is."""
        self._configs = configs
        self._settings = settings
        self._downgrade = downgrade
        self._topics = topics
        self._random = random
        self._groups: dict[str, ConsumerGroup] = {}
        self._timers: Timers[TimerKey] = Timers()
        self._hashes = TopicHashes()
        self._patterns = Patterns()

    @property
    def groups(self) -> Mapping[str, ConsumerGroup]:
        """The groups by id, to look at."""
        return self._groups

    def remembered(self) -> Mapping[str, Mapping[str, object]]:
        """Everything that the records say, to compare."""
        return {group_id: group.remembered() for group_id, group in self._groups.items()}

    def heartbeat(
        self, request: Heartbeat, token: Token, now: Now, upgraded: ClassicGroup | None = None
    ) -> Effects:
        """ConsumerGroupHeartbeat: a member joins, says that it is there, or leaves.

        `upgraded`: the group of the classic protocol that becomes a consumer group so. There are
        records only if the request is not refused.
        """
        draft = Draft(request.group_id, self._groups.get(request.group_id))
        try:
            answer = self._heard(draft, request, now, upgraded)
        except Refusal as refusal:
            return Effects(answers=((token, answers.refused(refusal)),))
        records = self._records(draft, now) if request.leaves else draft.records
        return Effects(tuple(records), ((token, answer),))

    def _heard(
        self, draft: Draft, request: Heartbeat, now: Now, upgraded: ClassicGroup | None
    ) -> Answer:
        check(request, self._settings.assignors)
        if not (request.joins or self.has(request.group_id)):
            raise Refusal(
                ErrorCode.group_id_not_found, f"Consumer group {request.group_id} not found."
            )
        op = self._operation(now)
        if upgraded is not None:
            upgrade(draft, upgraded, op)
        if request.leaves:
            leave(draft, request, op)
            return answers.left(request.member_id, request.member_epoch)
        member, tell = heartbeat(draft, request, op)
        settings = self._settings.of_group(self._configs(request.group_id))
        interval_ms = settings.heartbeat_interval_ms
        return answers.heard(member, interval_ms, tell_assignment=tell)

    def describe(self, group_id: str) -> Answer:
        """One group of ConsumerGroupDescribe."""
        group = self._groups.get(group_id)
        assignor = "" if group is None else assignor_of(group, self._settings)
        return answers.described(group_id, group, assignor, self._topics())

    def join(self, request: Join, token: Token, now: Now) -> Effects:
        """JoinGroup of a group that exists."""
        who = request.who
        return self._classic(
            who.group_id,
            lambda draft, op: classic_members.join(draft, request, op),
            lambda error: classic_answers.join_error(error, who.member_id),
            token,
            now,
        )

    def sync(self, request: Sync, token: Token, now: Now) -> Effects:
        """SyncGroup of a group that exists."""
        return self._classic(
            request.who.group_id,
            lambda draft, op: classic_members.sync(draft, request, op),
            classic_answers.sync_error,
            token,
            now,
        )

    def classic_heartbeat(self, who: Identity, generation: int, token: Token, now: Now) -> Effects:
        """Heartbeat of a group that exists."""
        return self._classic(
            who.group_id,
            lambda draft, op: classic_members.heartbeat(draft, who, generation, op),
            lambda error: {"error_code": error},
            token,
            now,
        )

    def leave(self, group_id: str, leavers: Sequence[Leaver], token: Token, now: Now) -> Effects:
        """LeaveGroup of a group that exists."""
        return self._classic(
            group_id,
            lambda draft, op: classic_members.leave(draft, leavers, op),
            lambda error: {"error_code": error, "members": ()},
            token,
            now,
        )

    def _classic(
        self,
        group_id: str,
        work: Callable[[Draft, Operation], Answer],
        failed: Callable[[ErrorCode], Answer],
        token: Token,
        now: Now,
    ) -> Effects:
        draft = Draft(group_id, self._groups[group_id])
        try:
            answer = work(draft, self._operation(now))
        except Refusal as refusal:
            return Effects(answers=((token, failed(refusal.error)),))
        return Effects(tuple(self._records(draft, now)), ((token, answer),))

    def _records(self, draft: Draft, now: Now) -> Iterable[CoordinatorRecord]:
        """The records of an operation that may have removed members.

        If only members of the classic protocol are left, the group becomes a classic one.
        """
        group = draft.group
        if not draft.removed or self._downgrade is None or not is_due(group, self._settings):
            return draft.records
        classic = downgraded(draft.group_id, group, self._topics(), now.wall_ms)
        rebalances = draft.left or not is_settled(group)
        taken = self._downgrade(classic, now, rebalances)
        if taken is None:
            return draft.records
        for member_id in group.members:
            self._operation(now).forget(draft.group_id, member_id)
        draft.remove_group()
        return (*draft.records, *taken.records)

    def has(self, group_id: str) -> bool:
        """Whether a consumer group has this id."""
        return group_id in self._groups

    def check_commit(self, committer: Committer, now: Now) -> ErrorCode:
        """Whether offsets may be committed: by a member in its epoch.

        If the group has no members, anybody who is in no epoch may, too. A transaction
        that names no member is not checked. Kafka 4.2 knows no exception for the epoch before
        (KIP-1251 is later).
        """
        group = self._groups[committer.group_id]
        if committer.generation < 0 and not group.members:
            return ErrorCode.none
        nobody = committer.member_id == "" and committer.instance_id is None
        if committer.transactional and committer.generation < 0 and nobody:
            return ErrorCode.none
        member = group.members.get(committer.member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        old = committer.version < FIRST_MODERN_COMMIT and not committer.transactional
        if old and not member.classic:
            return ErrorCode.unsupported_version
        error = _epoch_error(member, committer.generation)
        if error is ErrorCode.stale_member_epoch and committer.transactional:
            return ErrorCode.illegal_generation
        return error

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether offsets may be read: by a member in its epoch, or by who names no member."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.none
        member = self._groups[group_id].members.get(member_id or "")
        if member is None:
            return ErrorCode.unknown_member_id
        return _epoch_error(member, member_epoch)

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        """Offsets may be deleted; of which topics, `subscribes` says."""
        return ErrorCode.none

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether a member subscribes to `topic`."""
        return self._groups[group_id].subscribes(topic)

    def retention(self, group_id: str) -> Retention | None:
        """Offsets grow old from their commit on."""
        return Retention(None)

    def check_delete(self, group_id: str) -> ErrorCode:
        """Whether the group may be deleted."""
        has_members = self._groups[group_id].members
        return ErrorCode.non_empty_group if has_members else ErrorCode.none

    def tombstones(self, group_id: str) -> tuple[CoordinatorRecord, ...]:
        """The records that remove the group."""
        draft = Draft(group_id, self._groups[group_id])
        draft.remove_group()
        return tuple(draft.records)

    def listing(self) -> Iterable[ListedGroup]:
        """Every consumer group."""
        for group_id, group in self._groups.items():
            yield ListedGroup(group_id, "consumer", group.state.value, "Consumer")

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        """Apply a record of the log. Raises RecordError."""
        decoded = _TYPES.decode(record)
        if decoded is None:
            return
        group_id = decoded.key.group_id
        group = self._groups.get(group_id)
        if group is None:
            if decoded.value is None:
                return
            group = self._groups[group_id] = ConsumerGroup()
        group.apply(decoded)
        if not group.exists:
            del self._groups[group_id]

    def loaded(self, now: Now) -> Effects:
        """Begin with what is remembered: every session begins anew, and every time to revoke."""
        self._timers = Timers()
        op = self._operation(now)
        for group_id, group in self._groups.items():
            for member in group.members.values():
                op.keep_session(group_id, member)
                if member.revokes and not member.classic:
                    timeout_ms = member.metadata.rebalance_timeout_ms
                    op.limit("rebalance", group_id, member.member_id, timeout_ms)
        return Effects()

    def deadline_ms(self) -> float | None:
        """When `tick` is due."""
        return self._timers.next_ms()

    def tick(self, now: Now) -> Effects:
        """Remove members whose session ended, or that did not revoke partitions in time."""
        op = self._operation(now)
        drafts: dict[str, Draft] = {}
        for count, key in enumerate(self._timers.due(now.ms), 1):
            if key.group_id not in drafts:
                drafts[key.group_id] = Draft(key.group_id, self._groups.get(key.group_id))
            time_is_over(drafts[key.group_id], key, op)
            if count >= MOST_ENDED:
                break
        return Effects(
            tuple(record for each in drafts.values() for record in self._records(each, now))
        )

    def abandoned(self, token: Token) -> None:
        """Nobody waits."""

    def _operation(self, now: Now) -> Operation:
        return Operation(
            now,
            self._settings,
            self._topics(),
            self._hashes,
            self._patterns,
            self._timers,
            lambda: str(UUID(int=self._random.getrandbits(128), version=4)),
            self._configs,
        )


def _epoch_error(member: Member, epoch: int) -> ErrorCode:
    if epoch == member.current.epoch:
        return ErrorCode.none
    return ErrorCode.illegal_generation if member.classic else ErrorCode.stale_member_epoch
