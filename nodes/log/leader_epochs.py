"""The start offset of each leader epoch in a log: the table that decides truncation.

Truncation to the high watermark loses acknowledged records. KIP-101 replaced it: the follower asks
the leader where the follower's last epoch ends. KIP-279 added the epoch to the response, so that
logs do not silently diverge after several quick failovers.

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
        """The newest assigned epoch, with or without records; -1 if there is none."""
        return self._entries[-1][0] if self._entries else NO_EPOCH

    def last_with_records(self, end_offset: Offset) -> Epoch:
        """The epoch of the last record of a log that ends at `end_offset`; -1 without records."""
        for epoch, start in reversed(self._entries):
            if start < end_offset:
                return epoch
        return NO_EPOCH

    def last_before(self, end_offset: Offset) -> Epoch:
        """As `last_with_records`; of a log without records that begins above 0, the epoch that
        begins at its end: that of the last removed record, unless a newer one was assigned there.
        """
        known = self.last_with_records(end_offset)
        return self.latest if known == NO_EPOCH and end_offset > 0 else known

    def assign(self, epoch: Epoch, start: Offset) -> bool:
        """Let `epoch` begin at `start`, the log's end; return whether that changed the table.

        It replaces an epoch without records that was assigned there before. Raises EpochRegression
        if a newer epoch has records before `start`.
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
        """Remove epochs that begin at or after the new end; return whether there were any."""
        kept = len(self._entries)
        while kept and self._entries[kept - 1][1] >= end_offset:
            kept -= 1
        changed = kept < len(self._entries)
        del self._entries[kept:]
        return changed

    def truncate_from_start(self, start_offset: Offset) -> bool:
        """Remove epochs that end at or before `start_offset`, the log's new start; return whether
        that changed the table. As in Kafka, the epoch of the first record then begins there.
        """
        before = 0
        while before < len(self._entries) and self._entries[before][1] <= start_offset:
            before += 1
        if not before or (self._entries[before - 1][1] == start_offset and before == 1):
            return False
        self._entries[:before] = [(self._entries[before - 1][0], start_offset)]
        return True

    def clear(self) -> None:
        """Remove every epoch: the log is empty."""
        self._entries.clear()

    def end_offset_for(self, epoch: Epoch, end_offset: Offset) -> EpochStart:
        """The largest known epoch not above `epoch`, and its end offset.

        An epoch older than all known epochs ends where the first one begins. An epoch newer than
        all known ones, or any epoch in an empty table, is unknown: (-1, -1) (KIP-101, KIP-279).
        """
        if epoch < 0 or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        end = end_offset
        for known, start in reversed(self._entries):
            if known <= epoch:
                return known, end
            end = start
        return epoch, end
