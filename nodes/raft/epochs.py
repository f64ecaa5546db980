"""Which epochs a member of the quorum accepts. Pure.

An epoch is four bytes of a message that any machine may send; a member adopts a higher epoch and
stores it on disk. If it accepted any epoch, a single message could bring it to the last epoch, and
no election would ever be possible again. So:

- A request raises the epoch by at most MAX_LEAP above the last epoch that this node knows from
  other sources: its disk at the start, its log, its own elections, or a response to its own
  request. A voter that missed more elections than that refuses the requests of the others, and
  learns their epoch from the responses to its own pre-votes and fetches.
- No member enters an epoch above `highest_epoch`, from whatever source.
- A higher epoch on the disk, left by a version without these rules, is replaced
  (`credible_state`).
"""

from typing import Final

from nodes.ids import Epoch
from nodes.raft.election_state import ElectionState

LAST_EPOCH: Final = Epoch(2**31 - 1)
"""The largest epoch that a message can contain."""

MAX_LEAP: Final = 1000

ROOM: Final = 1 << 24
"""More epochs than a cluster uses in normal operation: half a year with an election every second.
"""


def highest_epoch(last_epoch: Epoch) -> Epoch:
    """The highest epoch for a member whose last log record has `last_epoch`.

    It is ROOM below LAST_EPOCH, unless the log itself has a higher epoch.
    """
    return Epoch(min(LAST_EPOCH, max(LAST_EPOCH - ROOM, last_epoch + ROOM)))


def credible_state(state: ElectionState, last_epoch: Epoch) -> ElectionState:
    """Return `state` from the disk, or, if its epoch is too high, a state with a lower epoch.

    No node leads an epoch above the highest, so a vote in such an epoch can be forgotten. The new
    epoch is so far above the log's that this node has not voted in it or in a later one.
    """
    if state.epoch <= highest_epoch(last_epoch):
        return state
    return ElectionState(epoch=Epoch(max(last_epoch, 0) + ROOM))
