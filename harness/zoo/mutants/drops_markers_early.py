"""The cleaner removes a transaction's marker while records of the transaction are in the log.

Kafka did so when the transaction spanned several segments. A new replica and a restarted broker
wait for the marker: readers of committed records come no further.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.batch import BatchHeader
from nodes.log.cleaning.transactions import CleanedTransactions
from nodes.log.transactions.markers import Marker

BUG = "compaction removes the marker of a transaction whose records stay"
SOURCES = ("KAFKA-8351",)
SHOWS = ("aborted-read", "unavailable")

_read_marker = CleanedTransactions.read_marker


def read_marker(self: CleanedTransactions, header: BatchHeader, marker: Marker | None) -> bool:
    """Let every marker be discarded."""
    _read_marker(self, header, marker)
    return True


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(CleanedTransactions, read_marker=read_marker)


if __name__ == "__main__":
    run(apply)
