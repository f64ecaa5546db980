"""Which log is cleaned next, and which of its offsets. Pure.

A log is clean below its cleaner checkpoint. The segments above are dirty; they can be cleaned up to
the first segment that holds an offset that may still change: the active segment, the first offset
that is not stable (not committed, or of an open transaction), and records younger than
min.compaction.lag.ms (KIP-58). A log is cleaned when the dirty share of these bytes is above
min.cleanable.dirty.ratio, or when a dirty record is older than max.compaction.lag.ms (KIP-354). The
rules are those of Kafka's LogCleanerManager and LogToClean.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from nodes.ids import Offset
from nodes.log.config import NEVER, CompactionConfig


class LogSegment(Protocol):
    """The properties of a segment that decide; a timestamp may need a read."""

    base_offset: Offset
    size: int

    def first_batch_timestamp(self) -> int:
        """Of the first batch, in wall-clock milliseconds; -1 without one."""
        ...

    def largest_timestamp(self) -> tuple[int, Offset]:
        """The largest timestamp, -1 without one; and an offset that does not matter here."""
        ...


class Cleanable(NamedTuple):
    """What can be cleaned of a log."""

    first_dirty: Offset
    """The log is clean below."""
    end: Offset
    """Where a segment begins; nothing from here on is cleaned."""
    clean_bytes: int
    dirty_bytes: int
    """The bytes of the segments with offsets from `first_dirty` to `end`."""
    overdue: bool
    """Whether a dirty record is older than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        """The dirty share of the bytes that can be cleaned."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: CompactionConfig) -> bool:
        """Whether the log should be cleaned now."""
        return (self.overdue and self.dirty_bytes > 0) or self.ratio > config.min_dirty_ratio


def first_dirty(checkpoint: Offset | None, start_offset: Offset, end_offset: Offset) -> Offset:
    """Where the dirty part of a log begins, given its cleaner checkpoint.

    A checkpoint outside of the log is not believed: the whole log then counts as dirty.
    """
    if checkpoint is None or not start_offset <= checkpoint <= end_offset:
        return start_offset
    return checkpoint


def cleanable(
    segments: Sequence[LogSegment],
    dirty: Offset,
    *,
    stable_offset: Offset,
    config: CompactionConfig,
    now_ms: int,
) -> Cleanable:
    """What can be cleaned of a log whose dirty part begins at `dirty`.

    `segments` are all, the active one last. `stable_offset`: neither this offset nor a later one
    may be cleaned. `now_ms` is wall-clock time.
    """
    sealed = segments[:-1]
    limit = min(stable_offset, segments[-1].base_offset)
    dirty_segments = (
        sealed[_containing(sealed, dirty) :] if dirty < segments[-1].base_offset else []
    )
    if config.min_lag_ms > 0:
        young = now_ms - config.min_lag_ms
        for segment in dirty_segments:
            if segment.largest_timestamp()[0] > young:
                limit = min(limit, segment.base_offset)
                break
    end = segments[_containing(segments, max(dirty, limit))].base_offset
    overdue = False
    if config.max_lag_ms < NEVER:
        stamps = [stamp for s in dirty_segments if (stamp := s.first_batch_timestamp()) > 0]
        overdue = bool(stamps) and min(stamps) < now_ms - config.max_lag_ms
    return Cleanable(
        first_dirty=dirty,
        end=end,
        clean_bytes=sum(s.size for s in segments if s.base_offset < dirty),
        dirty_bytes=sum(s.size for s in dirty_segments if s.base_offset < end),
        overdue=overdue,
    )


def _containing(segments: Sequence[LogSegment], offset: Offset) -> int:
    """The number of the segment that contains `offset`; of the first one if all are above."""
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def dirtiest(candidates: Iterable[tuple[Cleanable, CompactionConfig]]) -> int | None:
    """The number of the log to clean next: of those that are due, the one with the largest dirty
    share; None if none is due.
    """
    best: tuple[float, int] | None = None
    for number, (each, config) in enumerate(candidates):
        if each.is_due(config) and (best is None or each.ratio > best[0]):
            best = each.ratio, number
    return None if best is None else best[1]
