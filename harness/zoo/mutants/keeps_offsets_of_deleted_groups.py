"""A deleted group leaves its committed offsets.

Another group of that name begins where the deleted one ended, and skips everything before.
"""

from collections.abc import Iterable

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.groups import composition
from nodes.coordinators.groups.offsets import OffsetKey
from nodes.coordinators.records import CoordinatorRecord

BUG = "the offsets of a deleted group come back"
SOURCES = ("Redpanda 4900",)
SHOWS = ("skipped-record",)


def tombstones(keys: Iterable[OffsetKey]) -> tuple[CoordinatorRecord, ...]:
    """Remove no offset."""
    return ()


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(composition, tombstones=tombstones)


if __name__ == "__main__":
    run(apply)
