"""Search for records by timestamp in a log's segments (ListOffsets, KIP-79, KIP-734).

The result is exact. Of a batch whose records cannot be decompressed, the first offset and the
largest timestamp are told.
"""

from collections.abc import Sequence
from typing import Final

from nodes.ids import NO_OFFSET, Offset
from nodes.log.batch import BatchHeader, Record
from nodes.log.errors import CorruptBatch
from nodes.log.recompression import decoded
from nodes.log.segment import Segment

NOWHERE: Final = NO_OFFSET, -1


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: Offset
) -> tuple[Offset, int] | None:
    """Offset and timestamp of the first record at or after `timestamp_ms`, not below
    `start_offset`; None without one.
    """
    for segment in segments:
        found = segment.batch_from_time(timestamp_ms)
        if found is not None and found[1].last_offset < start_offset:
            found = _next(segment, start_offset, timestamp_ms)
        while found is not None:
            position, header = found
            for record in _records(segment, position, header):
                if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                    return record.offset, record.timestamp
            found = _next(segment, header.next_offset, timestamp_ms)
    return None


def largest(segments: Sequence[Segment], start_offset: Offset) -> tuple[Offset, int]:
    """Offset and timestamp of the first record with the largest timestamp, not below
    `start_offset`; (-1, -1) if there is none.
    """
    best = NOWHERE
    for segment in segments:
        stamp, last_offset = segment.largest_timestamp()
        if stamp > best[1]:
            found = _largest_of(segment, last_offset, start_offset)
            best = found if found[1] > best[1] else best
    return best


def _next(segment: Segment, start: Offset, timestamp_ms: int) -> tuple[int, BatchHeader] | None:
    """The first batch from offset `start` on with a record at or after `timestamp_ms`."""
    if start < segment.next_offset:
        begin, _ = segment.batch_at(start)
        for position, header in segment.scan(begin):
            if header.max_timestamp >= timestamp_ms:
                return position, header
    return None


def _largest_of(segment: Segment, last_offset: Offset, start: Offset) -> tuple[Offset, int]:
    """Like `largest`, for a segment; `last_offset` ends its first batch with the largest
    timestamp.
    """
    position, header = segment.batch_at(last_offset)
    best = NOWHERE
    if header.base_offset >= start:
        best = _largest_in(segment, position, header, start)
        if best != NOWHERE:
            return best  # otherwise the log cleaner has removed the records of the batch
    if start < segment.next_offset:
        begin, _ = segment.batch_at(start)
        for position, header in segment.scan(begin):
            if header.max_timestamp > best[1]:
                found = _largest_in(segment, position, header, start)
                best = found if found[1] > best[1] else best
    return best


def _largest_in(
    segment: Segment, position: int, header: BatchHeader, start: Offset
) -> tuple[Offset, int]:
    """Like `largest`, for a batch: the log may start inside it, behind its largest timestamp."""
    records = _records(segment, position, header)
    left = ((record.offset, record.timestamp) for record in records if record.offset >= start)
    return max(left, key=lambda place: place[1], default=NOWHERE)


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    try:
        return decoded(segment.file.pread(position, header.size))
    except CorruptBatch:
        if not header.compression:
            raise
        return [Record(offset=header.base_offset, timestamp=header.max_timestamp)]
