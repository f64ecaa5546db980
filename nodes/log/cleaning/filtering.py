"""What becomes of a batch and of its records. Pure.

A record stays if the dirty part of the log has no later record of its key; a record above the part
that was read stays as it is. A tombstone (a record without a value) stays until the delete horizon
of its batch. The horizon is delete.retention.ms after the first cleaning that saw the tombstone,
and stands in the batch's header (KIP-534), so a reader that begins at offset 0 and needs less time
sees every deletion. Records without a key do not belong into a compacted log and are removed.

Offsets, leader epoch, sequences and codec of a batch never change. The rules are those of Kafka's
Cleaner and MemoryRecords.filterTo. One differs: Kafka keeps the last batch of each producer, this
log all those that the producer state remembers, so that every replica has the same state.
"""

from collections.abc import Sequence

from nodes.log.batch import BatchHeader, assemble
from nodes.log.cleaning.offset_map import GONE, TOMBSTONE, OffsetMap
from nodes.log.cleaning.spans import latest_delta, shifted
from nodes.log.compression import compress
from nodes.log.producer_state import Producers

_TOMBSTONES, _GONE = bytes([TOMBSTONE]), bytes([GONE])


class RecordFilter:
    """For one cleaning, which began at `now_ms` (wall-clock time)."""

    def __init__(self, offsets: OffsetMap, *, now_ms: int, delete_retention_ms: int) -> None:
        self._offsets = offsets
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms

    def keeps_all(self, header: BatchHeader) -> bool:
        """Whether the batch is above the part of the log that was read for the map."""
        return header.base_offset > self._offsets.latest_offset

    def horizon_is_over(self, header: BatchHeader) -> bool:
        """Whether the batch's tombstones or marker may be removed."""
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def retained(self, header: BatchHeader, fates: bytearray) -> bytearray:
        """The fates of the batch's records, without tombstones whose time is over."""
        return fates.replace(_TOMBSTONES, _GONE) if self.horizon_is_over(header) else fates

    def rewritten(
        self, header: BatchHeader, kept: Sequence[bytes], *, waits: bool
    ) -> tuple[BatchHeader, bytes]:
        """The batch with the records `kept`, of which there is at least one, and its header.

        `waits`: there is a tombstone, or it is the marker of a transaction without batches.
        """
        latest = header.max_timestamp
        if not header.has_append_time:
            most = header.max_timestamp - header.base_timestamp
            latest = header.base_timestamp + latest_delta(kept, most)
        new = header.with_records(len(kept), latest)
        if waits and not header.has_delete_horizon:
            new = new.with_delete_horizon(self._horizon_ms)
            shift = header.base_timestamp - new.base_timestamp
            kept = [shifted(record, shift) for record in kept]
        return new, assemble(new, compress(header.compression, b"".join(kept)))


def is_remembered(producers: Producers, header: BatchHeader) -> bool:
    """Whether the state of a producer needs the batch: one of its remembered batches, or a marker
    if it has none, because of its epoch.
    """
    if header.producer_id < 0:
        return False
    known = producers.get(header.producer_id)
    if known is None:
        return False
    if not known.batches:
        return header.is_control and header.producer_epoch == known.epoch
    return any(batch.last_offset == header.last_offset for batch in known.batches)
