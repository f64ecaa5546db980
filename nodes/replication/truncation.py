"""Where a follower's log departs from its leader's: by leader epoch, never by high watermark.

The original replication design cut a follower back to its high watermark, which lags behind the
leader's; KIP-101 shows how acknowledged records die of it. KIP-279 compares the largest epoch that
both logs have, KIP-595 puts the answer into the fetch response. Pure.
"""

from typing import NamedTuple, Protocol

from nodes.ids import Epoch, Offset


class EpochHistory(Protocol):
    """A log's leader epochs: the part of a log that these decisions look at."""

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """The largest epoch not above `epoch` and where it ends; (-1, -1) when there is none."""
        ...


class Divergence(NamedTuple):
    """The largest epoch up to which the fetcher may agree with the leader, and its end there."""

    epoch: Epoch
    end_offset: Offset


def divergence(
    leader: EpochHistory, last_fetched_epoch: Epoch, fetch_offset: Offset
) -> Divergence | None:
    """The leader's check of a fetch: None when the fetcher's log is a prefix of the leader's."""
    if last_fetched_epoch < 0:
        return None
    epoch, end = leader.end_offset_for_epoch(last_fetched_epoch)
    if epoch < last_fetched_epoch or end < fetch_offset:
        return Divergence(epoch, end)
    return None


def truncation_offset(follower: EpochHistory, log_end: Offset, told: Divergence) -> Offset:
    """Where the follower has to cut its log, told `told` by the leader.

    If the follower has the epoch, the shorter end of it; if not, the end of its next lower epoch,
    so that the next fetch compares one epoch further down (KIP-279). With no epoch in common,
    nothing of the log can be trusted.
    """
    if told.epoch < 0:
        return Offset(max(told.end_offset, 0))
    _, local_end = follower.end_offset_for_epoch(told.epoch)
    if local_end < 0:
        return Offset(0)
    return min(log_end, told.end_offset, local_end)
