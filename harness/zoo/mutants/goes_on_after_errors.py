"""A log stays in use after a write or a flush failed.

The kernel reports a failed write-back once and forgets the pages: the next flush succeeds without
meaning anything (KAFKA-10778). A write that failed half-way leaves its first half behind.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.health import Health

BUG = "appends after an I/O error"
SOURCES = ("KAFKA-10778", "fsyncgate")
SHOWS = ("lost-write", "divergent-replicas", "phantom")


def fail(self: Health, why: object) -> None:
    """Ignore the error."""


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Health, fail=fail)


if __name__ == "__main__":
    run(apply)
