"""Where two replicas' logs diverge: decided by leader epoch, never by high watermark.

Logs that agree on the epoch and offset of one record agree on all records before it. So a follower
has to truncate to the end of the largest common epoch, the smaller of its two ends. The original
replication design truncated to the follower's high watermark, which lags behind the leader's;
KIP-101 shows how that loses acknowledged records. KIP-279 compares the largest epoch that both logs
have; KIP-595 puts the result into the fetch response. Partitions and the metadata log use the same
rule. Pure.
"""

from typing import NamedTuple, Protocol

from nodes.ids import Epoch, Offset


class EpochHistory(Protocol):
    """The properties of a log that these decisions need."""

    @property
    def last_epoch(self) -> Epoch:
        """The epoch of the last record, also of a removed one; -1 if it is not known."""
        ...

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record; of an empty log, where it starts."""
        ...

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """The largest epoch not above `epoch`, and its end offset.

        An epoch older than the first ends where the first begins; one newer than the last:
        (-1, -1).
        """
        ...


class EpochEnd(NamedTuple):
    """The leader's largest epoch not above the follower's last epoch, and its end offset."""

    epoch: Epoch
    end_offset: Offset


def divergence(leader: EpochHistory, last_epoch: Epoch, offset: Offset) -> EpochEnd | None:
    """The leader's check of a fetch at `offset` by a log whose last record has `last_epoch`.

    None if the leader's log contains the whole log of the follower. A follower without an epoch
    (-1) cannot diverge. If the leader knows no epoch of removed records, only
    its end is left, and what a follower has below it does not matter.
    """
    if offset == 0 or last_epoch < 0:
        return None
    newest, end = leader.last_epoch, leader.end_offset
    if newest == last_epoch and 0 <= offset <= end:
        return None  # nearly always: both write in the same epoch
    if newest < 0:
        return None if offset <= end else EpochEnd(last_epoch, end)
    # An epoch newer than this log is replaced by this log's last epoch: logs report it as unknown,
    # and that must not mean "nothing in common".
    epoch, end = leader.end_offset_for_epoch(Epoch(min(last_epoch, newest)))
    if epoch == last_epoch and 0 <= offset <= end:
        return None
    if epoch < 0:  # no epoch here is that old: nothing in common
        return EpochEnd(last_epoch, Offset(0))
    return EpochEnd(epoch, end)


def truncation_offset(follower: EpochHistory, epoch_end: EpochEnd) -> Offset:
    """The offset to which the follower has to truncate its log, given the leader's `epoch_end`.

    If the follower has the epoch: the smaller of its two ends. If not: the end of the follower's
    next lower epoch, so that the next fetch compares an earlier epoch.
    """
    epoch, end = follower.end_offset_for_epoch(epoch_end.epoch)
    if epoch == epoch_end.epoch:
        end = min(end, epoch_end.end_offset)
    return Offset(max(end, 0))
