"""Where two metadata logs stop agreeing, seen from both ends (KIP-595).

Logs that agree on the epoch and offset of one record agree on all before it, so the largest common
epoch, and the smaller of its two ends, is where a replica has to cut: never the high watermark,
which says nothing of what a log holds beyond it (KIP-101).
"""

from nodes.ids import Epoch, Offset
from nodes.raft.messages import EpochEnd, FetchRequest, LogView


def divergence(log: LogView, request: FetchRequest) -> EpochEnd | None:
    """The leader's side: None when its `log` has all that the replica says it has."""
    if request.offset == 0:
        return None
    # An epoch newer than all of this log, which no replica of this epoch can have, is asked about
    # as its own last: logs call it unknown, and that must not mean "agrees on nothing".
    asked = Epoch(min(request.last_epoch, log.last_epoch))
    epoch, end = log.end_offset_for_epoch(asked)
    if epoch == request.last_epoch and 0 <= request.offset <= end:
        return None
    if epoch < 0:  # nothing that old is here: they agree on nothing
        return EpochEnd(request.last_epoch, Offset(0))
    return EpochEnd(epoch, end)


def truncation_offset(log: LogView, diverging: EpochEnd) -> Offset:
    """The replica's side: the new end of its `log`."""
    epoch, end = log.end_offset_for_epoch(diverging.epoch)
    if epoch == diverging.epoch:
        end = Offset(min(end, diverging.end_offset))
    return Offset(max(end, 0))
