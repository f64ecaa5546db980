"""Which segments are cleaned into one. Pure.

Cleaned segments are smaller, so neighbours are written into one segment, within segment.bytes and
the range of the index's relative offsets (Kafka's Cleaner.groupSegmentsBySize).
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from nodes.ids import Offset
from nodes.log.segment import MAX_RELATIVE_OFFSET


class SegmentExtent(Protocol):
    """The properties of a segment that decide."""

    size: int
    base_offset: Offset
    next_offset: Offset


S = TypeVar("S", bound=SegmentExtent)


def grouped(segments: Sequence[S], segment_bytes: int) -> list[list[S]]:
    """The segments in groups, in order; together the old segments of a group would fit into one."""
    groups: list[list[S]] = []
    size = 0
    for segment in segments:
        size += segment.size
        fits = (
            bool(groups)
            and size <= segment_bytes
            and segment.next_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = segment.size
    return groups
