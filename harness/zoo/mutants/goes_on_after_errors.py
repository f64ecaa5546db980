"""A log goes on after a write or a flush that failed.

The kernel tells of a failed write-back once and forgets the pages: the next flush succeeds and
means nothing (KAFKA-10778). A write that failed half-way leaves its half behind.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.health import Health

BUG = "appends after an I/O error"
SOURCES = ("KAFKA-10778", "fsyncgate")
SHOWS = ("lost-write", "divergent-replicas", "phantom")


def fail(self: Health, why: object) -> None:
    """It may have been a passing thing."""


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(Health, fail=fail)


if __name__ == "__main__":
    run(apply)
