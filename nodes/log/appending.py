"""Validation of batches before an append, by leader and follower, and segment rolling. Pure."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from nodes.ids import Epoch, Offset
from nodes.log.batch import (
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    UNASSIGNED_OFFSET,
    BatchHeader,
    check_crc,
    iter_batches,
    read_header,
)
from nodes.log.cleaning.fillers import from_offset
from nodes.log.config import LogConfig
from nodes.log.errors import EpochRegression, InvalidBatch, MessageTooLarge, OffsetGap
from nodes.log.record_validation import check_records
from nodes.log.retention import rolls_by_age
from nodes.log.segment import MAX_RELATIVE_OFFSET


class LogAppendInfo(NamedTuple):
    """The offsets of an append; a duplicate has those of the first append.

    An empty append has `last_offset` one below `base_offset`.
    """

    base_offset: Offset
    last_offset: Offset
    duplicate: bool


class ActiveSegment(Protocol):
    """The properties of the active segment that decide when it is full."""

    size: int
    base_offset: Offset
    next_offset: Offset
    first_timestamp: int


def validate_produced(
    batches: bytes, config: LogConfig, from_coordinator: bool = False
) -> BatchHeader:
    """Return the header of a producer's data, which must be exactly one valid batch.

    A record of a compacted log must have a key. A coordinator encodes its batches itself: checksum
    and records are not checked. Only a coordinator may write for a producer without
    a sequence. Raises CorruptBatch, InvalidBatch, MessageTooLarge.
    """
    header = read_header(batches)
    size = header.size
    most = config.max_message_bytes
    if len(batches) > most:
        raise MessageTooLarge(f"{len(batches)} bytes, more than the {most} allowed")
    if not from_coordinator:
        if header.base_offset != UNASSIGNED_OFFSET:
            raise InvalidBatch(f"base offset {header.base_offset}, which is the leader's to assign")
        check_crc(batches, 0, header)
    if size != len(batches):
        raise InvalidBatch(f"{len(batches) - size} bytes after the one batch of a produce")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidBatch(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )
    if header.producer_id >= 0:
        if header.base_sequence < 0 and not from_coordinator:
            raise InvalidBatch(f"sequence {header.base_sequence} of producer {header.producer_id}")
    elif header.attributes & TRANSACTIONAL_BIT:
        raise InvalidBatch("a transactional batch without a producer id")
    if not from_coordinator:  # which has just encoded the batch
        keyed, count = config.compaction is not None, header.record_count
        check_records(batches, HEADER_BYTES, size, header.compression, count, keyed=keyed)
    return header


def validate_fetched(batches: bytes, end: Offset, epoch: Epoch) -> list[tuple[int, BatchHeader]]:
    """Return position and header of each whole batch from a leader, for a log that ends at `end`
    with a record of `epoch`. Raises CorruptBatch, OffsetGap, EpochRegression.
    """
    whole = list(iter_batches(batches))
    for pos, header in whole:
        check_crc(batches, pos, header)
        if header.base_offset != end:
            raise OffsetGap(f"a batch at offset {header.base_offset} for a log at {end}")
        if header.partition_leader_epoch < epoch:
            raise EpochRegression(
                f"epoch {header.partition_leader_epoch} at offset {end}, after {epoch}"
            )
        end, epoch = header.next_offset, header.partition_leader_epoch
    return whole


def from_end_of_log(batches: bytes, end: Offset) -> bytes:
    """A leader's batches, for a log that ends at `end`; the first one may be a filler that begins
    earlier, because the leader's log was cleaned again. Raises CorruptBatch.
    """
    if len(batches) < HEADER_BYTES:
        return batches
    first = read_header(batches)
    if first.base_offset < end <= first.last_offset and first.is_filler:
        check_crc(batches, 0, first)
        return from_offset(batches, first, end)
    return batches


def is_full(active: ActiveSegment, header: BatchHeader, config: LogConfig) -> bool:
    """Whether the batch of `header` begins a new segment, by size, offset or age. segment.ms uses
    the records' timestamps, so that every replica rolls at the same batch.
    """
    return active.size > 0 and (
        active.size + header.size > config.segment_bytes
        or active.next_offset + header.last_offset_delta - active.base_offset > MAX_RELATIVE_OFFSET
        or rolls_by_age(active.first_timestamp, header.max_timestamp, config.segment_ms)
    )


def batches_that_fit(
    whole: Sequence[tuple[int, BatchHeader]], start: int, active: ActiveSegment, config: LogConfig
) -> tuple[int, int]:
    """The batches of `whole` from number `start` on that fit into the active segment: return the
    number of the next batch, and its position. The first batch always fits.
    """
    first, header = whole[start]
    first_timestamp = active.first_timestamp if active.size else header.max_timestamp
    stop = start + 1
    end = first + header.size
    while stop < len(whole):
        _, header = whole[stop]
        if active.size + end - first + header.size > config.segment_bytes:
            break
        if header.last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            break
        if rolls_by_age(first_timestamp, header.max_timestamp, config.segment_ms):
            break
        end += header.size
        stop += 1
    return stop, end
