"""A consumer that asks for stable offsets is told the last one, though a transaction may change it.

A member that takes over a partition while the earlier owner's transaction is being committed reads
the records of that transaction again (KIP-447).
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.groups.offsets import OffsetKey, Offsets

BUG = "an offset is told while a transaction may change it"
SOURCES = ("Redpanda 9571", "KIP-447")
SHOWS = ("copied-twice", "delivered-again")


def pending(self: Offsets, key: OffsetKey) -> bool:
    """Know of no open transaction."""
    return False


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Offsets, pending=pending)


if __name__ == "__main__":
    run(apply)
