"""A truncation of the log does not forget the transactions that began in the removed part.

The first unstable offset stays where the removed transaction began: when this replica leads,
readers of committed records come no further.
"""

from collections.abc import Iterable

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Offset
from nodes.log.transactions.unstable import UnstableTransactions

BUG = "the first unstable offset outlives a truncation"
SOURCES = ("KAFKA-12153",)
SHOWS = ("unavailable",)


def restore(self: UnstableTransactions, opened: Iterable[tuple[Offset, int]], end: Offset) -> None:
    """Add the transactions that are open at `end` to those that are remembered."""
    self._open = dict(sorted({**self._open, **dict(opened)}.items()))


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(UnstableTransactions, restore=restore)


if __name__ == "__main__":
    run(apply)
