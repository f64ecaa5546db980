"""What a leader answers to the position that a replica's fetch names (KIP-595, KIP-630). Pure."""

from typing import NamedTuple, Protocol

from nodes.ids import Epoch, Offset
from nodes.log.divergence import EpochEnd, EpochHistory, divergence


class SnapshotId(NamedTuple):
    """A snapshot holds everything below `offset`; the record before it is of `epoch`."""

    offset: Offset
    epoch: Epoch


class History(EpochHistory, Protocol):
    """A log of which the oldest part may have been replaced by snapshots."""

    @property
    def start_offset(self) -> Offset:
        """Its first record's offset: 0, or that of the oldest snapshot that it continues."""
        ...

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        """The oldest snapshot kept."""
        ...

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot."""
        ...


def validate_position(
    log: History, last_epoch: Epoch, offset: Offset
) -> EpochEnd | SnapshotId | None:
    """None when a log that ends at `offset`, after a record of `last_epoch`, can go on from there.

    An EpochEnd when it must truncate first; a SnapshotId when this log begins too late for it: it
    fetches that snapshot instead. The rules are those of Kafka's validateOffsetAndEpoch.
    """
    oldest, start = log.oldest_snapshot, log.start_offset
    if oldest is not None and start > 0:
        too_old = (
            offset < start
            or (offset == start and last_epoch != oldest.epoch)
            or last_epoch < oldest.epoch
        )
        if too_old:
            return log.snapshot
    return divergence(log, last_epoch, offset)
