"""Where each leader epoch begins in a log: the table that truncation is decided by.

KIP-101 replaced truncation to the high watermark, which loses acknowledged records, by asking the
leader where the follower's last epoch ends; KIP-279 made the answer carry the epoch it is about,
so that fast successive failovers do not leave logs silently diverging.

Guarantees: entries ascend strictly both in epoch and in start offset. Pure; the log keeps the file.
"""

from nodes.ids import NO_EPOCH, NO_OFFSET, Epoch, Offset
from nodes.log.errors import EpochRegression

EpochStart = tuple[Epoch, Offset]


class LeaderEpochs:
    """Epochs and their start offsets, oldest first."""

    def __init__(self) -> None:
        self._entries: list[EpochStart] = []

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """Every epoch with the offset of its first record, oldest first."""
        return tuple(self._entries)

    @property
    def latest(self) -> Epoch:
        """The newest epoch assigned, records or not; -1 when there is none."""
        return self._entries[-1][0] if self._entries else NO_EPOCH

    def last_with_records(self, end_offset: Offset) -> Epoch:
        """The epoch of the last record of a log that ends at `end_offset`; -1 without records."""
        for epoch, start in reversed(self._entries):
            if start < end_offset:
                return epoch
        return NO_EPOCH

    def assign(self, epoch: Epoch, start: Offset) -> bool:
        """Note that `epoch` begins at `start`, the log's end; whether that changed the table.

        An epoch that was assigned there before and got no record gives way. Raises
        EpochRegression when records of a newer epoch lie before `start`.
        """
        if self._entries and self._entries[-1][0] == epoch:
            return False
        before = self.last_with_records(start)
        if epoch < before:
            raise EpochRegression(f"epoch {epoch} at offset {start}, after records of {before}")
        changed = self.truncate_from_end(start)
        if epoch == before:
            return changed
        self._entries.append((epoch, start))
        return True

    def truncate_from_end(self, end_offset: Offset) -> bool:
        """Forget epochs that begin at or after the new end; whether there were any."""
        kept = len(self._entries)
        while kept and self._entries[kept - 1][1] >= end_offset:
            kept -= 1
        changed = kept < len(self._entries)
        del self._entries[kept:]
        return changed

    def truncate_from_start(self, start_offset: Offset) -> bool:
        """The log begins at `start_offset` now: forget epochs that end there or before; whether
        that changed the table. The epoch of the first record left begins there, as in Kafka.
        """
        before = 0
        while before < len(self._entries) and self._entries[before][1] <= start_offset:
            before += 1
        if not before or (self._entries[before - 1][1] == start_offset and before == 1):
            return False
        self._entries[:before] = [(self._entries[before - 1][0], start_offset)]
        return True

    def clear(self) -> None:
        """Forget every epoch: the log begins anew."""
        self._entries.clear()

    def end_offset_for(self, epoch: Epoch, end_offset: Offset) -> EpochStart:
        """The largest known epoch not above `epoch`, and the offset where it ends.

        An epoch older than every known one ends where the first known one begins; one newer than
        every known one, or any in an empty table, is unknown: (-1, -1) (KIP-101, KIP-279).
        """
        if epoch < 0 or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        end = end_offset
        for known, start in reversed(self._entries):
            if known <= epoch:
                return known, end
            end = start
        return epoch, end
