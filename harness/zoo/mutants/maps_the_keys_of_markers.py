"""The cleaner takes the key of a transaction's marker for the key of a record.

A user's record with that key (four bytes) is superseded by every later marker, and removed.
"""

from collections.abc import Iterator

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.cleaning.cleaner import Cleaning, Step, _records

BUG = "a marker supersedes a record whose key equals the marker's"
SOURCES = ("KAFKA-14055",)
SHOWS = ("lost-write",)

_original = Cleaning._read_keys


def _read_keys(self: Cleaning) -> Iterator[Step]:
    """Add the keys of markers to the map, too."""
    yield from _original(self)
    for segment in self._log.segments.all[:-1]:
        for header, batch in self._batches(segment) if segment.base_offset < self._end else ():
            for spans in self._spans(header, _records(header, batch)) if header.is_control else ():
                self._offsets.add(spans, header.base_offset, self._first_dirty)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Cleaning, _read_keys=_read_keys)


if __name__ == "__main__":
    run(apply)
