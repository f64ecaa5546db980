"""The cleaner removes a batch without records, also a producer's last one.

After a restart or on a new replica the producer's last sequence is not known: its next batch is
refused, or its last one is appended twice.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.batch import BatchHeader
from nodes.log.cleaning import cleaner
from nodes.log.producer_state import Producers

BUG = "compaction forgets a producer's last sequence"
SOURCES = ("KAFKA-5490",)
SHOWS = ("duplicate",)


def is_remembered(producers: Producers, header: BatchHeader) -> bool:
    """Keep no batch because of its producer."""
    return False


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(cleaner, is_remembered=is_remembered)


if __name__ == "__main__":
    run(apply)
