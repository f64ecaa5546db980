"""After a kill, a broker takes its producers from a snapshot below the segments that it validates.

A cleaner removes the marker of a transaction when its producer is forgotten and its records are
superseded. At the old snapshot the transaction is open, and nothing above ends it: readers of
committed records come no further.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Offset
from nodes.log.producer_state_manager import ProducerStateManager

BUG = "an unclean start begins at an old snapshot of producers"
SOURCES = ("this broker (seed 97420)",)
SHOWS = ("hanging-transaction", "unavailable")

_load = ProducerStateManager.load


def load(self: ProducerStateManager, end: Offset, rebuilt: int) -> int:
    """Go on from the snapshot at which the replay begins."""
    first = self._segments.all[0].base_offset
    to_rebuild = self._segments.all[rebuilt:]
    limit = to_rebuild[0].base_offset if to_rebuild else end
    differed = _load(self, end, rebuilt)
    self._replay(self._restore(limit, first))
    return differed


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(ProducerStateManager, load=load)


if __name__ == "__main__":
    run(apply)
