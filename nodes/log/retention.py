"""Which segments of a log are expired: by age, by size, or below the log's start. Pure.

The rules are Kafka's. The age of a segment is that of its largest timestamp, not of its write; a
segment without timestamps never expires by age. Only segments entirely below the high watermark
expire. By size, the oldest segments expire as long as at least `retention.bytes` remain.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nodes.ids import Offset


class SegmentInfo(NamedTuple):
    """The properties of a segment that retention needs."""

    next_offset: Offset
    size: int
    largest_timestamp: int
    """Wall-clock milliseconds; -1 without one."""


def expired(
    segments: Sequence[SegmentInfo],
    *,
    now_ms: int,
    high_watermark: Offset,
    retention_ms: int,
    retention_bytes: int,
) -> int:
    """How many of the oldest segments are expired; a bound of -1 means no bound."""
    by_age = by_size = 0
    excess = sum(segment.size for segment in segments) - retention_bytes
    for number, segment in enumerate(segments):
        if not segment.size or segment.next_offset > high_watermark:
            break
        stamp = segment.largest_timestamp
        if by_age == number and stamp >= 0 and now_ms - stamp > retention_ms >= 0:
            by_age = number + 1
        excess -= segment.size
        if retention_bytes >= 0 and excess >= 0:
            by_size = number + 1
    return max(by_age, by_size)


def below_start(ends: Iterable[Offset], start_offset: Offset) -> int:
    """How many of the oldest segments, which end at `ends`, are entirely below `start_offset`."""
    count = 0
    for end in ends:
        if end > start_offset:
            break
        count += 1
    return count


def rolls_by_age(first_timestamp: int, now_ms: int, segment_ms: int) -> bool:
    """Whether a segment with records is too old for more; `now_ms` is a record's timestamp or the
    wall clock.
    """
    return first_timestamp >= 0 and now_ms - first_timestamp > segment_ms
