"""After a failed fsync and a restart, a node believes that what it reads is on the disk.

The kernel marked the pages clean that it could not write. So they can still be read, the fsyncs of
the next process succeed, and a power loss removes what those fsyncs promised to keep.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.segment import Segment

BUG = "the page cache believed after a failed fsync"
SOURCES = ("fsyncgate", "KAFKA-10778")
SHOWS = ("lost-write", "divergent-replicas")


def rewrite(self: Segment, start: int) -> None:
    """Do nothing: the data can be read."""


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Segment, rewrite=rewrite)


if __name__ == "__main__":
    run(apply)
