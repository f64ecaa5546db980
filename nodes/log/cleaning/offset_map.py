"""The last record of each key in the dirty part of a log, in bounded memory.

Each record of the dirty part has a fate: it is superseded, or is the last one of its key. So the
second pass over the dirty part needs no key. Sizes are remembered too, so it need not look for the
records either. Of the keys, the map has the place of their last record's fate.

The map takes keys until its memory is used up; the log is then cleaned only up to the last offset
that was added.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final
from zlib import crc32

from nodes.ids import NO_OFFSET, Offset
from nodes.log.batch import BatchHeader
from nodes.log.cleaning.spans import Keys, no_keys, read_keys
from nodes.log.errors import CorruptBatch

GONE, STAYS, TOMBSTONE = 0, 1, 2
"""Fates: the record may be removed; it is the last one of its key; it is that, and has no value."""
BYTES_PER_KEY: Final = 176
"""The most memory that a key needs: its two objects, and its place in the dictionary, which is half
empty after it grew. `python -m tests.tools.compaction_speed` measures it.
"""
BYTES_PER_RECORD: Final = 6
"""What would be its fate, its fate, and its size."""
BYTES_PER_BATCH: Final = 16
"""What a batch needs beside its records."""
MAX_BATCH_OFFSETS: Final = 1 << 24
"""More records are in no batch that a leader accepts."""
_SHARDS: Final = 64
_MAX_SHARD_RECORDS: Final = 1 << 17
"""When a dictionary of so many keys grows the last time, that takes about two milliseconds."""
_PORTION: Final = 1000
_STAYS: Final = bytes([STAYS])
_NOWHERE: Final = -1 << 62
"""The place of the records of a batch that was not added."""


class Portion:
    """Neighbouring records of the dirty part, from `start` on, which enter the map together."""

    def __init__(self, start: Offset) -> None:
        self._start = start
        self._base = NO_OFFSET
        self.clear()

    def clear(self) -> None:
        """Begin the next portion. It may begin inside of a batch."""
        self.found = no_keys()
        self.bases = [self._base]
        """The base offsets of its batches. The first one began before the portion."""
        self.begins = [0]
        """The number of the first record of each."""
        self.reached: list[tuple[int, Offset]] = []
        """With so many records, every key up to this offset is in the map."""

    def begin(self, header: BatchHeader) -> None:
        """Begin a batch, whose records follow. Raises CorruptBatch."""
        if header.last_offset_delta >= MAX_BATCH_OFFSETS:
            raise CorruptBatch(f"a batch of {header.last_offset_delta + 1} offsets")
        self._base = header.base_offset
        self.bases.append(header.base_offset)
        self.begins.append(len(self.found.keys))

    def read(self, data: bytes, at: int, count: int, *, end: int, last_delta: int) -> int:
        """Read the next records of the batch that was begun last, as `read_keys` does."""
        number = len(self.found.keys)
        at = read_keys(self.found, data, at, count, end=end, last_delta=last_delta)
        if self._base < self._start:
            self.leave_out_clean(number)
        return at

    def leave_out_clean(self, number: int) -> None:
        """Of record `number` and those after it, all of the last batch: forget the keys of records
        below the dirty part.
        """
        deltas, keys, _, _ = self.found
        first = self._start - self._base
        keys[number:] = [
            None if delta < first else key
            for key, delta in zip(keys[number:], deltas[number:], strict=True)
        ]

    def reach(self, offset: Offset) -> None:
        """Every key up to `offset` was read."""
        if offset >= self._start:
            self.reached.append((len(self.found.keys), offset))


class OffsetMap:
    """For one cleaning of offsets from `start` up to `end` at most. `latest_offset` is the last
    offset up to which it has every key.

    First the records of every batch are added; then `decide` sets the fates. A dictionary holds the
    event loop when it grows, so the keys of many records are in many dictionaries.
    """

    def __init__(
        self, start: Offset, end: Offset, buffer_bytes: int, load_factor: float = 1.0
    ) -> None:
        self.start = start
        self.latest_offset = NO_OFFSET
        self._budget = int(buffer_bytes * load_factor)
        shards = 1 if end - start <= _MAX_SHARD_RECORDS else _SHARDS
        self._shards: tuple[dict[bytes | None, int], ...] = tuple({} for _ in range(shards))
        self._most_keys = 0
        """At least the number of keys, which is not counted for every batch."""
        self._kinds = bytearray()
        """Of each record its fate if it is the last one of its key."""
        self._fates = bytearray()
        self._sizes = array("I")
        self._bases = array("q")
        """The base offsets of the batches, and where in `_kinds` and `_sizes` each begins."""
        self._places = array("q")
        self._following = 0
        """The number of the batch that is probably asked for next."""

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def add(self, portion: Portion) -> bool:
        """Add the records of a portion; false if the map is full before the last of them. The rest
        stays, whatever the keys. The portion begins anew.

        A record without a key is not added: see `look_up`.
        """
        count, batches = len(portion.found.keys), len(portion.bases)
        fits = self._most_keys + count <= self._room(count, batches)
        if fits:
            self._add(portion.found.keys, len(self._kinds))
            self._most_keys += count
        else:
            count, batches = self._add_until_full(portion)
        complete = count == len(portion.found.keys)
        self._remember(portion, count, batches)
        portion.clear()
        return complete

    def _room(self, records: int, batches: int) -> int:
        """How many keys the map may have, with so many more records and batches."""
        records, batches = records + len(self._kinds), batches - 1 + len(self._bases)
        used = BYTES_PER_RECORD * records + BYTES_PER_BATCH * batches
        return max(1, (self._budget - used) // BYTES_PER_KEY)

    def _add_until_full(self, portion: Portion) -> tuple[int, int]:
        """Add the records that fit, batch by batch; return their number, and that of the batches
        until then.
        """
        place, ends = len(self._kinds), [*portion.begins[1:], len(portion.found.keys)]
        for number, (begin, end) in enumerate(zip(portion.begins, ends, strict=True), 1):
            added, room = begin, self._room(end, number)
            while added < end:
                if self._most_keys >= room:
                    self._most_keys = len(self)
                    if self._most_keys >= room:
                        return added, number
                stop = min(end, added + room - self._most_keys)  # fits, if all are new, too
                self._add(portion.found.keys[added:stop], place + added)
                self._most_keys += stop - added
                added = stop
        return len(portion.found.keys), len(portion.bases)

    def _remember(self, portion: Portion, count: int, batches: int) -> None:
        """Remember the first records and batches of a portion, and up to where they reach."""
        found, place = portion.found, len(self._kinds)
        self._bases.extend(portion.bases[1:batches])
        self._places.extend([place + begin for begin in portion.begins[1:batches]])
        self._kinds += _kinds(found)[:count]
        self._sizes.extend(found.sizes[:count])
        for records, offset in portion.reached:
            if records <= count:
                self.latest_offset = max(self.latest_offset, offset)
        begin = portion.begins[batches - 1]
        if begin < count:  # the last batch may have more records
            latest = Offset(portion.bases[batches - 1] + max(found.deltas[begin:count]))
            self.latest_offset = max(self.latest_offset, latest)

    def _add(self, keys: Sequence[bytes | None], place: int) -> None:
        shards = self._shards
        if len(shards) == 1:
            shards[0].update(zip(keys, range(place, place + len(keys)), strict=True))
            shards[0].pop(None, None)
            return
        for own, key in enumerate(keys, place):
            if key is not None:
                shards[crc32(key) % _SHARDS][key] = own

    def decide(self) -> Iterator[int]:
        """Set the fates of all records that were added, in portions; yields the keys of each."""
        self._fates = bytearray(len(self._kinds))
        fates, kinds = self._fates, self._kinds
        for shard in self._shards:
            places = iter(shard.values())
            while portion := list(islice(places, _PORTION)):
                for place in portion:
                    fates[place] = kinds[place]
                yield len(portion)

    def remembered(self, header: BatchHeader) -> "tuple[bytearray, array[int]] | None":
        """The fates and sizes in bytes of the batch's records, if all of them were added."""
        place, end = self._places_of(header)
        if header.base_offset < self.start or end - place < header.record_count:
            return None
        return self._fates[place:end], self._sizes[place:end]

    def _places_of(self, header: BatchHeader) -> tuple[int, int]:
        """Where the fates of a batch begin and end."""
        bases, places, number = self._bases, self._places, self._following
        if number >= len(bases) or bases[number] != header.base_offset:
            number = bisect_left(bases, header.base_offset)
            if number == len(bases) or bases[number] != header.base_offset:
                return _NOWHERE, _NOWHERE
        self._following = following = number + 1
        return places[number], places[following] if following < len(places) else len(self._fates)

    def look_up(self, header: BatchHeader, found: Keys, number: int) -> bytearray:
        """The fates of some records of a batch of which not all were added, from record `number`
        on.

        Records below `start` are gone if their keys are in the map; those above `latest_offset`
        stay.
        """
        fates, place = _kinds(found), self._places_of(header)[0] + number
        latest = self.latest_offset - header.base_offset
        if place < 0 and header.base_offset >= self.start:
            latest = -1  # none of its keys is in the map
        shards = self._shards
        for own, (key, delta) in enumerate(zip(found.keys, found.deltas, strict=True)):
            if delta > latest:
                fates[own] = STAYS  # also a tombstone: earlier records of its key may stay, too
            elif key is None:
                fates[own] = GONE
            else:
                last = shards[crc32(key) % len(shards)].get(key)
                if last is not None and last != place + own:
                    fates[own] = GONE
        return fates


def _kinds(found: Keys) -> bytearray:
    """The fates of records of which none is gone."""
    kinds = bytearray(_STAYS * len(found.keys))
    for number in found.tombstones:
        kinds[number] = TOMBSTONE
    return kinds
