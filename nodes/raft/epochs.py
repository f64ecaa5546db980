"""Which epochs a member of the quorum believes. Pure.

An epoch is four bytes of a message that anybody may send, and a higher one is taken over and kept
on disk. A member that believed any could be brought to the last epoch by a single message, after
which no election is possible for ever. So:

- A request moves the epoch on by MAX_LEAP at most, counted from the last epoch that this node knows
  without that request: from its disk at the start, from its log, from its own elections, or from an
  answer to what it asked itself. A voter that was away for more elections than that refuses the
  requests of the others, and learns their epoch from the answers to its own pre-votes and fetches.
- No member enters an epoch above `highest_epoch`, whoever names it.
- A higher one on the disk, left by a version that believed it, is replaced (`credible_state`).
"""

from typing import Final

from nodes.ids import Epoch
from nodes.raft.election_state import ElectionState

LAST_EPOCH: Final = Epoch(2**31 - 1)
"""The largest that a message can hold."""

MAX_LEAP: Final = 1000

ROOM: Final = 1 << 24
"""More epochs than a cluster spends in years: an election a second takes half a year."""


def highest_epoch(last_epoch: Epoch) -> Epoch:
    """The highest epoch for a member whose log's last record is of `last_epoch`.

    It leaves ROOM below the largest number there is, unless the log itself has come so far.
    """
    return Epoch(min(LAST_EPOCH, max(LAST_EPOCH - ROOM, last_epoch + ROOM)))


def credible_state(state: ElectionState, last_epoch: Epoch) -> ElectionState:
    """`state` from the disk, or a lower epoch in its place that all voters can go on from.

    Nobody leads an epoch above the highest, so a vote in it is nothing to remember. The epoch that
    takes its place is so far above the log's that this node has not voted in it or in a later one.
    """
    if state.epoch <= highest_epoch(last_epoch):
        return state
    return ElectionState(epoch=Epoch(max(last_epoch, 0) + ROOM))
