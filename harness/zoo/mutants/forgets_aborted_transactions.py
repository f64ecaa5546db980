"""A cleaned segment has no index of aborted transactions, and their records stay.

Kafka lost the index when the cleaning of a segment ended in the middle, because the map of keys was
full. Readers of committed records then see aborted ones.
"""

from collections.abc import Sequence

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.log.batch import BatchHeader
from nodes.log.cleaning.cleaned_segment import CleanedSegment
from nodes.log.cleaning.transactions import CleanedTransactions
from nodes.log.transactions.aborted_index import AbortedTransaction
from nodes.storage.disk import File

BUG = "compaction loses the index of aborted transactions"
SOURCES = ("KAFKA-13727",)
SHOWS = ("aborted-read",)

_read_batch, _finish = CleanedTransactions.read_batch, CleanedSegment.finish


def read_batch(self: CleanedTransactions, header: BatchHeader) -> bool:
    """Discard no batch."""
    _read_batch(self, header)
    return False


def finish(self: CleanedSegment, aborted: Sequence[AbortedTransaction] | None) -> list[File]:
    """Write no entry."""
    return _finish(self, None if aborted is None else ())


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return undo_all(
        patch(CleanedTransactions, read_batch=read_batch), patch(CleanedSegment, finish=finish)
    )


if __name__ == "__main__":
    run(apply)
