"""Where two replicas' logs depart from each other: by leader epoch, never by high watermark.

Logs that agree on the epoch and offset of one record agree on all before it, so the largest common
epoch, and the smaller of its two ends, is where a follower has to cut. The original replication
design cut it back to its high watermark, which lags behind the leader's; KIP-101 shows how
acknowledged records die of that. KIP-279 compares the largest epoch that both logs have, KIP-595
puts the answer into the fetch response. One rule for partitions and for the metadata log. Pure.
"""

from typing import NamedTuple, Protocol

from nodes.ids import Epoch, Offset


class EpochHistory(Protocol):
    """What these decisions read of a log."""

    @property
    def last_epoch(self) -> Epoch:
        """The epoch of the last record; -1 when the log is empty."""
        ...

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """The largest epoch not above `epoch`, and where it ends.

        Epochs older than the first end where that one begins; newer than the last: (-1, -1).
        """
        ...


class EpochEnd(NamedTuple):
    """Up to `end_offset`, the leader's log may agree with one whose last epoch is `epoch`."""

    epoch: Epoch
    end_offset: Offset


def divergence(leader: EpochHistory, last_epoch: Epoch, offset: Offset) -> EpochEnd | None:
    """The leader's check of a fetch at `offset` by a log whose last record is of `last_epoch`.

    None when the leader's log has all that the fetcher says it has. A fetcher that names no epoch
    (-1) or has nothing cannot diverge.
    """
    if offset == 0 or last_epoch < 0:
        return None
    # An epoch newer than all of this log is asked about as its own last: logs call it unknown, and
    # that must not mean "agrees on nothing".
    epoch, end = leader.end_offset_for_epoch(Epoch(min(last_epoch, leader.last_epoch)))
    if epoch == last_epoch and 0 <= offset <= end:
        return None
    if epoch < 0:  # nothing that old is here: they agree on nothing
        return EpochEnd(last_epoch, Offset(0))
    return EpochEnd(epoch, end)


def truncation_offset(follower: EpochHistory, told: EpochEnd) -> Offset:
    """Where the follower has to cut its log, told `told` by the leader.

    If the follower has the epoch, the shorter end of it; if not, the end of its next lower epoch,
    so that the next fetch compares one epoch further down.
    """
    epoch, end = follower.end_offset_for_epoch(told.epoch)
    if epoch == told.epoch:
        end = min(end, told.end_offset)
    return Offset(max(end, 0))
