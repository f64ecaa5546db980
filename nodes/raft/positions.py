"""Validation of the position in a replica's fetch by the leader (KIP-595, KIP-630). Pure."""

from typing import NamedTuple, Protocol

from nodes.ids import Epoch, Offset
from nodes.log.divergence import EpochEnd, EpochHistory, divergence


class SnapshotId(NamedTuple):
    """A snapshot contains everything below `offset`; the record before that has `epoch`."""

    offset: Offset
    epoch: Epoch


class History(EpochHistory, Protocol):
    """A log whose oldest part may have been replaced by snapshots."""

    @property
    def start_offset(self) -> Offset:
        """The offset of its first record: 0, or the end of the oldest snapshot."""
        ...

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        """The oldest snapshot kept, where the log begins unless it begins at 0."""
        ...

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot."""
        ...


def validate_position(
    log: History, last_epoch: Epoch, offset: Offset
) -> EpochEnd | SnapshotId | None:
    """Validate the end of a replica's log: `offset`, after a record of `last_epoch`.

    None: the replica can continue. An EpochEnd: it must truncate first. A SnapshotId: this log
    begins too late, and it must fetch that snapshot. The rules are those of Kafka's
    validateOffsetAndEpoch.
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
