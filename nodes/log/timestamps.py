"""Search for records by timestamp in a log's segments (ListOffsets, KIP-79, KIP-734).

The result is exact in uncompressed batches. Compressed batches are not opened: the result is then a
bound of the batch, chosen so that a consumer that starts there misses nothing.
"""

from collections.abc import Sequence

from nodes.ids import NO_OFFSET, Offset
from nodes.log.batch import BatchHeader, decode_records
from nodes.log.segment import Segment


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
            if header.compression:
                return Offset(max(header.base_offset, start_offset)), header.first_timestamp
            for record in decode_records(segment.file.pread(position, header.size)):
                if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                    return record.offset, record.timestamp
            found = _next(segment, header.next_offset, timestamp_ms)
    return None


def largest(segments: Sequence[Segment], start_offset: Offset) -> tuple[Offset, int]:
    """Offset and timestamp of the first record with the largest timestamp; (-1, -1) if none."""
    best, stamp, last_offset = segments[-1], -1, NO_OFFSET
    for segment in segments:
        its_stamp, its_offset = segment.largest_timestamp()
        if its_stamp > stamp and its_offset < start_offset:
            its_stamp, its_offset = _largest_from(segment, start_offset)
        if its_stamp > stamp:
            best, stamp, last_offset = segment, its_stamp, its_offset
    if stamp < 0:
        return NO_OFFSET, -1
    position, header = best.batch_at(last_offset)
    if not header.compression:
        for record in decode_records(best.file.pread(position, header.size)):
            if record.timestamp == stamp and record.offset >= start_offset:
                return record.offset, record.timestamp
    return last_offset, stamp


def _next(segment: Segment, start: Offset, timestamp_ms: int) -> tuple[int, BatchHeader] | None:
    """The first batch from offset `start` on with a record at or after `timestamp_ms`."""
    if start < segment.next_offset:
        begin, _ = segment.batch_at(start)
        for position, header in segment.scan(begin):
            if header.max_timestamp >= timestamp_ms:
                return position, header
    return None


def _largest_from(segment: Segment, start: Offset) -> tuple[int, Offset]:
    """Like `Segment.largest_timestamp`, for the batches from offset `start` on."""
    best = -1, NO_OFFSET
    if start < segment.next_offset:
        begin, _ = segment.batch_at(start)
        for _, header in segment.scan(begin):
            if header.max_timestamp > best[0]:
                best = header.max_timestamp, header.last_offset
    return best
