"""Empty batches that stand for removed batches, so that the offsets of a log have no gap. Pure.

Kafka leaves gaps. Then a follower cannot tell what its leader removed from what the leader lost or
skipped, nor can a recovery tell it from a misplaced batch; both are found here, in every log.
Neighbouring removed batches get one filler of 61 bytes. Batches of different leader epochs get
different ones, so that the epochs that a replica derives from batches are those of the whole log.

To clients and to Kafka's tools a filler is a batch without records, as Kafka's cleaner also writes
them. It has no producer id. Its largest timestamp is that of the removed batches, so that retention
by time stays the same.
"""

from typing import Final

from nodes.ids import Epoch, Offset
from nodes.log.batch import HEADER_BYTES, BatchHeader, assemble
from nodes.log.segment import MAX_RELATIVE_OFFSET

NO_TIMESTAMP: Final = -1


class Fillers:
    """The removed batches since the last batch that was kept."""

    def __init__(self) -> None:
        self._run: BatchHeader | None = None

    def remove(self, header: BatchHeader) -> BatchHeader | None:
        """A batch is removed; return the header of the filler that is complete now, if any."""
        before, new = self._run, as_filler(header)
        if before is None:
            self._run = new
            return None
        delta = new.last_offset - before.base_offset
        if before.partition_leader_epoch != new.partition_leader_epoch or (
            delta > MAX_RELATIVE_OFFSET
        ):
            self._run = new
            return before
        self._run = before._replace(
            last_offset_delta=delta,
            base_timestamp=min(before.base_timestamp, new.base_timestamp),
            max_timestamp=max(before.max_timestamp, new.max_timestamp),
        )
        return None

    def take(self) -> BatchHeader | None:
        """The header of the filler of the run that ends here, if any."""
        run, self._run = self._run, None
        return run


def as_filler(header: BatchHeader) -> BatchHeader:
    """The header of the filler for one batch."""
    return header.without_records()._replace(
        attributes=0, producer_id=-1, producer_epoch=-1, base_sequence=-1
    )


def filler(base_offset: Offset, next_offset: Offset, epoch: Epoch) -> BatchHeader:
    """The header of a filler for the offsets from `base_offset` up to `next_offset`."""
    return BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=epoch,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=next_offset - 1 - base_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=0,
    )


def from_offset(batches: bytes, header: BatchHeader, offset: Offset) -> bytes:
    """`batches`, whose first one is the filler of `header`, from `offset` inside of it on.

    A leader that was cleaned again may have a filler that begins before the end of a follower that
    has copied a part of the earlier batches.
    """
    shorter = header._replace(base_offset=offset, last_offset_delta=header.last_offset - offset)
    return assemble(shorter) + batches[HEADER_BYTES:]
