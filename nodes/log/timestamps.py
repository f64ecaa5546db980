"""Finding records by their timestamp, over a log's segments (ListOffsets, KIP-79, KIP-734).

Exact in uncompressed batches. Compressed ones are not opened: the answer is then the batch's own
bound, chosen so that a consumer that starts there misses nothing.
"""

from collections.abc import Sequence

from nodes.ids import NO_OFFSET, Offset
from nodes.log.batch import decode_records
from nodes.log.segment import Segment


def first_at_or_after(segments: Sequence[Segment], timestamp_ms: int) -> tuple[Offset, int] | None:
    """Offset and timestamp of the first record at or after `timestamp_ms`; None without one."""
    for segment in segments:
        found = segment.batch_from_time(timestamp_ms)
        if found is None:
            continue
        position, header = found
        if header.base_timestamp < timestamp_ms and not header.compression:
            for record in decode_records(segment.file.pread(position, header.size)):
                if record.timestamp >= timestamp_ms:
                    return record.offset, record.timestamp
        return header.base_offset, header.base_timestamp
    return None


def largest(segments: Sequence[Segment]) -> tuple[Offset, int]:
    """Offset and timestamp of the first record with the largest timestamp; (-1, -1) if none."""
    best = max(segments, key=lambda segment: segment.max_timestamp)
    if best.max_timestamp < 0:
        return NO_OFFSET, -1
    position, header = best.batch_at(best.max_timestamp_offset)
    if not header.compression:
        for record in decode_records(best.file.pread(position, header.size)):
            if record.timestamp == best.max_timestamp:
                return record.offset, record.timestamp
    return best.max_timestamp_offset, best.max_timestamp
