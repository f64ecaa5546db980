"""The cleaner removes tombstones at the first cleaning that sees them.

A reader that began at offset 0 and has not come to the tombstone yet never hears of the deletion.
Neither does a replica that lags: when it leads, the key has its value again.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.batch import BatchHeader
from nodes.log.cleaning.filtering import RecordFilter

BUG = "tombstones are removed before their time"
SOURCES = ("KAFKA-4529", "KIP-534")
SHOWS = ("divergent-replicas", "lost-key", "resurrected-key", "missing-key")


def horizon_is_over(self: RecordFilter, header: BatchHeader) -> bool:
    """Do not wait."""
    return True


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(RecordFilter, horizon_is_over=horizon_is_over)


if __name__ == "__main__":
    run(apply)
