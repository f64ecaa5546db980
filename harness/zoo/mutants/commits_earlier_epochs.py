"""A quorum leader commits records of earlier epochs as soon as a majority has them.

A later leader that lacks them may still replace them. Only a record of the leader's own epoch
behind them prevents that (Raft, 5.4.2; KAFKA-12619).
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Offset
from nodes.raft.leadership import Leadership

BUG = "committed before a record of its own epoch"
SOURCES = ("KAFKA-12619", "Raft 5.4.2")
SHOWS = ("lost-write", "unavailable")


def committed_end(self: Leadership, own_flushed: Offset) -> Offset | None:
    """Return the end of the flushed logs of a majority."""
    ends = [Offset(0) if p.end_offset is None else p.end_offset for p in self.voters.values()]
    if self._counts:
        ends.append(own_flushed)
    return sorted(ends, reverse=True)[self._set.majority - 1]


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Leadership, committed_end=committed_end)


if __name__ == "__main__":
    run(apply)
