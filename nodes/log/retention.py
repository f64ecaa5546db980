"""Which segments of a log have served their time: by age, by size, or below the log's start.

Kafka's rules. A segment goes by its largest timestamp, not by when it was written; one whose
records carry no time never goes by age. Nothing goes that is not whole below the high watermark.
The sizes are counted as if the oldest went first, and one that would leave less than
`retention.bytes` stays. Pure.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nodes.ids import Offset


class SegmentInfo(NamedTuple):
    """What retention asks of a segment."""

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
    """How many of the oldest segments may go; a bound of -1 is none."""
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
    """How many of the oldest segments, ending at `ends`, hold nothing from `start_offset` on."""
    count = 0
    for end in ends:
        if end > start_offset:
            break
        count += 1
    return count


def rolls_by_age(first_timestamp: int, now_ms: int, segment_ms: int) -> bool:
    """Whether a segment that holds records is too old to take more, `now_ms` being a record's
    timestamp or the wall clock.
    """
    return first_timestamp >= 0 and now_ms - first_timestamp > segment_ms
