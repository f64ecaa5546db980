"""A node whose fsync failed takes what it reads after its restart for what is on the disk.

The kernel has taken the pages for clean that it could not write: they are still read, the fsyncs of
the next process succeed, and a loss of power takes what they were said to have kept.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.segment import Segment

BUG = "the page cache believed after a failed fsync"
SOURCES = ("fsyncgate", "KAFKA-10778")
SHOWS = ("lost-write", "divergent-replicas")


def write_again(self: Segment, start: int) -> None:
    """It is there, after all."""


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(Segment, write_again=write_again)


if __name__ == "__main__":
    run(apply)
