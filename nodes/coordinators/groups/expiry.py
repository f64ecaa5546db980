"""What is removed without a request: old offsets, offsets of deleted topics, and empty groups.

An offset grows old when its group says so (empty since when, for example): never while a member
subscribes to its topic, or while an open transaction has an offset of its partition pending
(Redpanda 31483). A group without members and without offsets is removed then, too.

A sweep looks at one group after the other, a bounded number of offsets in each step, so that the
broker's event loop is never held long. Every step decides by the state of its own time.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.kind import GroupKind, Retention
from nodes.coordinators.groups.offsets import OffsetKey, Offsets
from nodes.coordinators.groups.records import NO_EXPIRY
from nodes.coordinators.machine import Now
from nodes.coordinators.records import CoordinatorRecord

MAX_TOMBSTONES: Final = 1_000
"""About the most tombstones of one step: they are one batch, if they fit into it."""
MAX_SCANNED: Final = 5_000
"""About the most offsets that one step looks at."""

KindOf = Callable[[str], GroupKind | None]


@dataclass(slots=True)
class OffsetExpiry:
    """The sweeps of one coordinator. `groups` lists the group ids of all kinds."""

    offsets: Offsets
    kind_of: KindOf
    groups: Callable[[], Iterable[str]]
    retention_ms: int
    interval_ms: int
    _next_check_ms: float | None = None
    _aging: dict[str, None] | None = None
    """The groups that the present sweep for old offsets has yet to look at."""
    _deleted: dict[str, None] | None = None
    """The groups that the present sweep for deleted topics has yet to look at."""
    _deleted_topics: Mapping[str, None] | None = None

    def start(self, now: Now) -> None:
        """The coordinator was loaded; the first sweep comes after one interval."""
        self._next_check_ms = now.ms + self.interval_ms

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """These topics were deleted: start a sweep for their offsets."""
        self._deleted_topics = {**(self._deleted_topics or {}), **dict.fromkeys(topics)}
        self._deleted = dict.fromkeys(self.offsets.groups())

    def deadline_ms(self) -> float | None:
        """When `step` is due."""
        going_on = self._aging is not None or self._deleted is not None
        return 0.0 if going_on else self._next_check_ms

    def step(self, now: Now) -> tuple[CoordinatorRecord, ...]:
        """Do a part of what is due; return the tombstones."""
        if self._deleted is not None:
            records = self._part(self._deleted, self._of_deleted_topics)
            if not self._deleted:
                self._deleted = self._deleted_topics = None
            return records
        if self._aging is None:
            if self._next_check_ms is None or self._next_check_ms > now.ms:
                return ()
            self._aging = dict.fromkeys((*self.offsets.groups(), *self.groups()))
        records = self._part(self._aging, lambda group_id: self._expired(group_id, now.wall_ms))
        if not self._aging:
            self._aging, self._next_check_ms = None, now.ms + self.interval_ms
        return records

    def _part(
        self, groups: dict[str, None], due: Callable[[str], tuple[list[CoordinatorRecord], int]]
    ) -> tuple[CoordinatorRecord, ...]:
        """The tombstones of the next groups, which are removed from `groups` when they are done."""
        records: list[CoordinatorRecord] = []
        scanned = 0
        while groups and len(records) < MAX_TOMBSTONES and scanned < MAX_SCANNED:
            group_id = next(iter(groups))
            found, seen = due(group_id)
            records += found[:MAX_TOMBSTONES]
            scanned += seen
            if len(found) <= MAX_TOMBSTONES:
                del groups[group_id]
        return tuple(records)

    def _of_deleted_topics(self, group_id: str) -> tuple[list[CoordinatorRecord], int]:
        keys = list(self.offsets.keys_of(group_id))
        topics = self._deleted_topics or {}
        return [key.tombstone() for key in keys if key.topic in topics], len(keys)

    def _expired(self, group_id: str, now_wall_ms: int) -> tuple[list[CoordinatorRecord], int]:
        """The tombstones of a group, and how many offsets were looked at."""
        kind = self.kind_of(group_id)
        retention = Retention(None) if kind is None else kind.retention(group_id)
        if retention is None:
            return [], 1
        keys = list(self.offsets.keys_of(group_id))
        old = [key.tombstone() for key in keys if self._is_old(key, kind, retention, now_wall_ms)]
        deletable = kind is not None and kind.check_delete(group_id) is ErrorCode.none
        if kind is not None and deletable and len(old) == len(keys):
            old += kind.tombstones(group_id)
        return old, len(keys) + 1

    def _is_old(
        self, key: OffsetKey, kind: GroupKind | None, retention: Retention, now_wall_ms: int
    ) -> bool:
        committed = self.offsets.committed(key)
        if committed is None or self.offsets.pending(key):
            return False
        if kind is not None and kind.subscribes(key.group_id, key.topic):
            return False
        if committed.expire_wall_ms != NO_EXPIRY:
            return now_wall_ms >= committed.expire_wall_ms
        since = retention.since_wall_ms
        start = committed.commit_wall_ms if since is None else since
        return now_wall_ms - start >= self.retention_ms
