"""The cleaner takes the key of a transaction's marker for the key of a record.

A user's record with that key (four bytes) is superseded by every later marker, and removed.
"""

from collections.abc import Iterator
from weakref import WeakSet

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from nodes.log.cleaning.cleaner import Cleaning, Step
from nodes.log.segment import Segment

BUG = "a marker supersedes a record whose key equals the marker's"
SOURCES = ("KAFKA-14055",)
SHOWS = ("lost-write",)

_original_read_keys, _original_batches = Cleaning._read_keys, Cleaning._batches
_reading_keys: WeakSet[Cleaning] = WeakSet()


def _read_keys(self: Cleaning) -> Iterator[Step]:
    _reading_keys.add(self)
    yield from _original_read_keys(self)
    _reading_keys.discard(self)


def _batches(
    self: Cleaning, segment: Segment, position: int = 0
) -> Iterator[tuple[BatchHeader, bytes, int]]:
    """Read a marker as a batch of records, too."""
    for header, window, at in _original_batches(self, segment, position):
        if header.is_control and self in _reading_keys:
            attributes = header.attributes & ~(CONTROL_BIT | TRANSACTIONAL_BIT)
            yield header._replace(attributes=attributes), window, at
        yield header, window, at


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Cleaning, _read_keys=_read_keys, _batches=_batches)


if __name__ == "__main__":
    run(apply)
