"""Replicas claim what is in the page cache, although the topic wants it flushed first.

With flush.messages=1 an acknowledged record is on the disk of every in-sync replica, and no loss of
power takes it. Without, all of them losing power together do.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Offset
from nodes.server.replicas.replica import Replica

BUG = "acknowledged before the flush"
SOURCES = ("correlated power loss",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def claimed_end(self: Replica) -> Offset:
    """The end of the log, on disk or not."""
    return self.log.end_offset


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(Replica, claimed_end=property(claimed_end))


if __name__ == "__main__":
    run(apply)
