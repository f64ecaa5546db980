"""Replicas claim records in the page cache, although the topic requires a flush first.

With flush.messages=1 an acknowledged record is on the disk of each in-sync replica, and no loss of
power removes it. Without the flush, all replicas can lose it in a common power loss.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Offset
from nodes.server.replicas.replica import Replica

BUG = "acknowledged before the flush"
SOURCES = ("correlated power loss",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def claimed_end(self: Replica) -> Offset:
    """Return the end of the log, on disk or not."""
    return self.log.end_offset


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Replica, claimed_end=property(claimed_end))


if __name__ == "__main__":
    run(apply)
