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
from typing import Final, NamedTuple
from zlib import crc32

from nodes.ids import NO_OFFSET, Offset
from nodes.log.batch import BatchHeader
from nodes.log.cleaning.spans import Keys
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


class Remembered(NamedTuple):
    """Of each record of a batch its fate and its size in bytes."""

    fates: bytearray
    sizes: Sequence[int]


class OffsetMap:
    """For one cleaning of offsets from `start` up to `end` at most. `latest_offset` is the last
    offset up to which it has every key.

    First every batch is begun and its records are added; then `decide` sets the fates. A dictionary
    holds the event loop when it grows, so the keys of many records are in many dictionaries.
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

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def begin(self, header: BatchHeader) -> None:
        """Begin a batch, whose keys follow. Raises CorruptBatch."""
        if header.last_offset_delta >= MAX_BATCH_OFFSETS:
            raise CorruptBatch(f"a batch of {header.last_offset_delta + 1} offsets")
        self._bases.append(header.base_offset)
        self._places.append(len(self._kinds))

    def add(self, header: BatchHeader, found: Keys) -> bool:
        """Add the next records of the batch that was begun last; false if the map is full before
        the last of them. The others stay, whatever their keys. Raises CorruptBatch.

        A record below `start` is not added: see `look_up`.
        """
        _check(header, found)
        first, place = self.start - header.base_offset, len(self._kinds)
        keys = found.keys
        if first > 0:
            pairs = zip(keys, found.deltas, strict=True)
            keys = [None if delta < first else key for key, delta in pairs]
        self._kinds += _kinds(found)
        self._sizes.extend(found.sizes)
        added = self._add_until_full(keys, place)
        if added == len(keys):
            return True
        del self._kinds[place + added :], self._sizes[place + added :]
        if added:
            self.reached(Offset(header.base_offset + max(found.deltas[:added])))
        return False

    def _add_until_full(self, keys: Sequence[bytes | None], place: int) -> int:
        """Add the keys of records, of which the first is at `place`; return how many fit."""
        used = BYTES_PER_RECORD * len(self._kinds) + BYTES_PER_BATCH * len(self._bases)
        room, added = max(1, (self._budget - used) // BYTES_PER_KEY), 0
        while added < len(keys):
            if self._most_keys >= room:
                self._most_keys = len(self)
                if self._most_keys >= room:
                    break
            portion = keys
            if added or self._most_keys + len(keys) > room:
                portion = keys[added : added + room - self._most_keys]  # fits, if all are new, too
            self._add(portion, place + added)
            added += len(portion)
            self._most_keys += len(portion)
        return added

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

    def reached(self, offset: Offset) -> None:
        """Every key up to `offset` is in the map."""
        self.latest_offset = max(self.latest_offset, offset)

    def remembered(self, header: BatchHeader) -> Remembered | None:
        """The fates and sizes of the batch's records, if all of them were added."""
        place, end = self._places_of(header)
        if header.base_offset < self.start or end - place < header.record_count:
            return None
        return Remembered(self._fates[place:end], self._sizes[place:end])

    def _places_of(self, header: BatchHeader) -> tuple[int, int]:
        """Where the fates of a batch begin and end."""
        number = bisect_left(self._bases, header.base_offset)
        if number == len(self._bases) or self._bases[number] != header.base_offset:
            return _NOWHERE, _NOWHERE
        last = number + 1 == len(self._bases)
        return self._places[number], len(self._fates) if last else self._places[number + 1]

    def look_up(self, header: BatchHeader, found: Keys, number: int) -> bytearray:
        """The fates of some records of a batch of which not all were added, from record `number`
        on. Raises CorruptBatch.

        Records below `start` are gone if their keys are in the map; those above `latest_offset`
        stay.
        """
        _check(header, found)
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


def _check(header: BatchHeader, found: Keys) -> None:
    if found.deltas and max(found.deltas) > header.last_offset_delta:
        raise CorruptBatch("an offset delta beyond its batch")


def _kinds(found: Keys) -> bytearray:
    """The fates of records of which none is gone."""
    kinds = bytearray(_STAYS * len(found.keys))
    for number in found.tombstones:
        kinds[number] = TOMBSTONE
    return kinds
