"""Committed offsets and the kinds of groups, as one machine; and what is the same for all kinds.

It decides which kind a group id has.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.expiry import OffsetExpiry
from nodes.coordinators.groups.kind import Committer, GroupKind, ListedGroup
from nodes.coordinators.groups.offset_requests import (
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    commit_records,
    deletion,
    fetched_topics,
    refused_commit,
    tombstones,
)
from nodes.coordinators.groups.offsets import Offsets
from nodes.coordinators.groups.records import OFFSET_COMMIT
from nodes.coordinators.groups.settings import GroupSettings
from nodes.coordinators.machine import Answer, Effects, Now, Position, ProducerStamp, Token
from nodes.coordinators.records import CoordinatorRecord, RecordError

ERRORS_SINCE: Final = 9
"""From this version on, OffsetCommit may be answered with GROUP_ID_NOT_FOUND."""

_NUMBER: Final = struct.Struct(">h")


class Groups:
    """See the module. `kinds`: each kind of group, with the numbers of its record types."""

    def __init__(
        self, settings: GroupSettings, kinds: Sequence[tuple[GroupKind, Iterable[int]]] = ()
    ) -> None:
        self._settings = settings.offsets
        self._kinds = tuple(kind for kind, _ in kinds)
        self.offsets = Offsets()
        replays = ((OFFSET_COMMIT.numbers, self.offsets.replay), *((n, k.replay) for k, n in kinds))
        self._replay: Mapping[bytes, Callable[[CoordinatorRecord, Position], None]] = {
            _NUMBER.pack(number): replay for numbers, replay in replays for number in numbers
        }
        """By the first bytes of a record's key."""
        self._expiry = OffsetExpiry(
            self.offsets,
            self.kind_of,
            self._group_ids,
            retention_ms=settings.offsets.retention_ms,
            interval_ms=settings.offsets.retention_check_interval_ms,
        )

    def kind_of(self, group_id: str) -> GroupKind | None:
        """The kind of a group; None if it has only offsets, or does not exist."""
        return next((kind for kind in self._kinds if kind.has(group_id)), None)

    # -- committed offsets

    def commit_offsets(self, commit: OffsetCommit, token: Token, now: Now) -> Effects:
        """OffsetCommit: the answer has the response's topics."""
        return self._commit(commit, None, token, now)

    def commit_in_transaction(
        self, commit: OffsetCommit, producer: ProducerStamp, token: Token, now: Now
    ) -> Effects:
        """TxnOffsetCommit: the offsets count when the producer's transaction is committed."""
        return self._commit(commit, producer, token, now)

    def _commit(
        self, commit: OffsetCommit, producer: ProducerStamp | None, token: Token, now: Now
    ) -> Effects:
        error = self._check_commit(commit.committer, now)
        if error is not ErrorCode.none:
            return _answer(token, {"topics": refused_commit(commit, error)})
        records, topics = commit_records(commit, now.wall_ms, self._settings.metadata_max_bytes)
        return Effects(records, ((token, {"topics": topics}),), producer)

    def _check_commit(self, committer: Committer, now: Now) -> ErrorCode:
        kind = self.kind_of(committer.group_id)
        if kind is not None:
            return kind.check_commit(committer, now)
        if committer.generation < 0:  # a client that assigns its partitions itself
            return ErrorCode.none
        if self.offsets.has(committer.group_id):
            return ErrorCode.unknown_member_id
        if committer.transactional or committer.version < ERRORS_SINCE:
            return ErrorCode.illegal_generation
        return ErrorCode.group_id_not_found

    def fetch_offsets(self, fetch: OffsetFetch, token: Token, now: Now) -> Effects:
        """OffsetFetch of one group: the answer has the fields of the group's row."""
        kind = self.kind_of(fetch.group_id)
        error = ErrorCode.none
        if kind is not None:
            error = kind.check_fetch(fetch.group_id, fetch.member_id, fetch.member_epoch)
        topics = fetched_topics(self.offsets, fetch) if error is ErrorCode.none else []
        row = {"group_id": fetch.group_id, "topics": topics, "error_code": error}
        return _answer(token, row)

    def delete_offsets(self, delete: OffsetDelete, token: Token, now: Now) -> Effects:
        """OffsetDelete."""
        kind = self.kind_of(delete.group_id)
        error = self._missing(delete.group_id)
        if kind is not None:
            error = kind.check_offset_delete(delete.group_id)
        if error is not ErrorCode.none:
            return _answer(token, {"error_code": error})
        records, topics = deletion(
            self.offsets, delete, lambda topic: self._subscribes(delete.group_id, topic)
        )
        return Effects(records, ((token, {"topics": topics}),))

    # -- groups

    def delete_group(self, group_id: str, token: Token, now: Now) -> Effects:
        """DeleteGroups, of one group: the answer has the fields of the group's row."""
        kind = self.kind_of(group_id)
        error = self._missing(group_id) if kind is None else kind.check_delete(group_id)
        answer = ((token, {"group_id": group_id, "error_code": error}),)
        if error is not ErrorCode.none:
            return Effects(answers=answer)
        records = tombstones(self.offsets.keys_of(group_id))
        return Effects((*records, *(() if kind is None else kind.tombstones(group_id))), answer)

    def list_groups(
        self, states: Sequence[str], types: Sequence[str], token: Token, now: Now
    ) -> Effects:
        """ListGroups: the groups in one of these states and of one of these types, if given."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.strip().lower() for kind in types}
        rows = [
            group._asdict()
            for group in self._listing()
            if (not wanted_states or group.group_state.lower() in wanted_states)
            and (not wanted_types or group.group_type.lower() in wanted_types)
        ]
        return _answer(token, {"groups": rows})

    def _listing(self) -> Iterator[ListedGroup]:
        for kind in self._kinds:
            yield from kind.listing()
        for group_id in self.offsets.groups():
            if self.kind_of(group_id) is None:
                yield ListedGroup(group_id, "", "Empty", "Classic")

    def _missing(self, group_id: str) -> ErrorCode:
        return ErrorCode.none if self.offsets.has(group_id) else ErrorCode.group_id_not_found

    def _subscribes(self, group_id: str, topic: str) -> bool:
        kind = self.kind_of(group_id)
        return kind is not None and kind.subscribes(group_id, topic)

    # -- what ends by itself

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """These topics were deleted: `tick` removes their offsets."""
        self._expiry.topics_deleted(topics)

    def _group_ids(self) -> Iterator[str]:
        for kind in self._kinds:
            yield from (group.group_id for group in kind.listing())

    # -- the machine

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        """See Machine. Records of unknown types are skipped, as in Kafka."""
        apply = self._replay.get(record.key[: _NUMBER.size])
        if apply is not None:
            apply(record, position)
        elif len(record.key) < _NUMBER.size:
            raise RecordError(f"{len(record.key)} bytes are too few for a record's number")

    def end_transaction(self, producer: ProducerStamp, position: Position, *, commit: bool) -> None:
        """See Machine."""
        self.offsets.end_transaction(producer, commit=commit)

    def loaded(self, now: Now) -> Effects:
        """See Machine. Nothing expires before one interval has passed."""
        self._expiry.start(now)
        return _together(kind.loaded(now) for kind in self._kinds)

    def deadline_ms(self) -> float | None:
        """See Machine."""
        earliest = self._expiry.deadline_ms()
        for kind in self._kinds:
            due = kind.deadline_ms()
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def tick(self, now: Now) -> Effects:
        """See Machine."""
        due = [
            kind for kind in self._kinds if (at := kind.deadline_ms()) is not None and at <= now.ms
        ]
        if due:  # before anything expires, which depends on what the kinds decide
            return _together(kind.tick(now) for kind in due)
        return Effects(self._expiry.step(now), separable=True)

    def abandoned(self, token: Token) -> None:
        """See Machine."""
        for kind in self._kinds:
            kind.abandoned(token)


def _answer(token: Token, answer: Answer) -> Effects:
    return Effects(answers=((token, answer),))


def _together(parts: Iterable[Effects]) -> Effects:
    """The effects of several parts as one batch."""
    effects = list(parts)
    return Effects(
        tuple(record for each in effects for record in each.records),
        tuple(answer for each in effects for answer in each.answers),
    )
