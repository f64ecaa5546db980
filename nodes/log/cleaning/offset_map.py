"""The last record of each key in the dirty part of a log, in bounded memory.

Each offset of the dirty part has a fate: its record is superseded, or is the last one of its key.
So the second pass over the dirty part needs no key. Of the keys, the map has the place of their
last record's fate.

A key of 31 bytes or more is represented by 31 bytes of BLAKE2b; nobody can construct two keys with
the same ones. A shorter key represents itself: it needs no more memory. The map takes keys until
its memory is used up; the log is then cleaned only up to the last offset that was added.
"""

from array import array
from bisect import bisect_left
from hashlib import blake2b
from typing import Final
from zlib import crc32

from nodes.ids import NO_OFFSET, Offset
from nodes.log.batch import BatchHeader
from nodes.log.cleaning.spans import Keys
from nodes.log.errors import CorruptBatch

GONE, STAYS, TOMBSTONE = 0, 1, 2
"""Fates: there is no record or it may be removed; it is the last one of its key; it is that, and
has no value."""
BYTES_PER_KEY: Final = 176
"""The most memory that a key needs: its two objects, and its place in the dictionary, which is half
empty after it grew. `python -m tests.tools.compaction_speed` measures it.
"""
BYTES_PER_BATCH: Final = 16
"""What a batch needs beside a byte for each of its offsets."""
MAX_BATCH_OFFSETS: Final = 1 << 24
"""More records are in no batch that a leader accepts."""
_DIGEST_BYTES: Final = 31
"""Of a bytes object of 64 bytes, 33 are not its content."""
_SHARDS: Final = 64


class OffsetMap:
    """For one cleaning of the offsets from `start` on. `latest_offset` is the last offset up to
    which it has every key.

    The keys are in many small dictionaries, because a large one holds the event loop when it grows.
    """

    def __init__(self, start: Offset, buffer_bytes: int, load_factor: float = 1.0) -> None:
        self.start = start
        self.latest_offset = NO_OFFSET
        self._budget = int(buffer_bytes * load_factor)
        self._shards: tuple[dict[bytes, int], ...] = tuple({} for _ in range(_SHARDS))
        self._count = 0
        self._fates = bytearray()
        self._bases = array("q")
        """The base offsets of the batches, and where in `_fates` each begins."""
        self._places = array("q")

    def __len__(self) -> int:
        return self._count

    def begin(self, header: BatchHeader) -> None:
        """Begin a batch, whose keys follow. Raises CorruptBatch."""
        if header.last_offset_delta >= MAX_BATCH_OFFSETS:
            raise CorruptBatch(f"a batch of {header.last_offset_delta + 1} offsets")
        self._bases.append(header.base_offset)
        self._places.append(len(self._fates))
        self._fates.extend(bytes(header.last_offset_delta + 1))

    def add(self, found: Keys) -> bool:
        """Add records of the batch that was begun last; false if the map is full before the last
        of them. The others stay, whatever their keys. Raises CorruptBatch.

        A record below `start` is not added: see `look_up`.
        """
        base, begin, fates = self._bases[-1], self._places[-1], self._fates
        if found.deltas and not 0 <= min(found.deltas) <= max(found.deltas) < len(fates) - begin:
            raise CorruptBatch("an offset delta beyond its batch")
        shards, count, latest = self._shards, self._count, NO_OFFSET
        room = max(1, self._room())
        first = self.start - base
        full = False
        for key, delta in zip(found.keys, found.deltas, strict=True):
            if key is None or delta < first:
                continue
            if count >= room:
                full = True
                fates[begin + delta :] = bytes([STAYS]) * (len(fates) - begin - delta)
                break
            if len(key) >= _DIGEST_BYTES:
                key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
            shard = shards[crc32(key) % _SHARDS]
            before = shard.get(key)
            if before is None:
                count += 1
            else:
                fates[before] = GONE
            shard[key] = begin + delta
            fates[begin + delta] = STAYS
            latest = Offset(base + delta)
        self._count = count
        self.reached(latest)
        for number in found.tombstones:
            if base + found.deltas[number] <= latest and fates[begin + found.deltas[number]]:
                fates[begin + found.deltas[number]] = TOMBSTONE
        return not full

    def _room(self) -> int:
        used = len(self._fates) + BYTES_PER_BATCH * len(self._bases)
        return (self._budget - used) // BYTES_PER_KEY

    def reached(self, offset: Offset) -> None:
        """Every key up to `offset` is in the map."""
        self.latest_offset = max(self.latest_offset, offset)

    def fates(self, header: BatchHeader) -> bytearray:
        """The fate of each offset of a batch, but of records below `start`: see `look_up`.

        A batch above them that is not in the map stays as it is.
        """
        number = bisect_left(self._bases, header.base_offset)
        size = header.last_offset_delta + 1
        if number < len(self._bases) and self._bases[number] == header.base_offset:
            place = self._places[number]
            return self._fates[place : place + size]
        return bytearray(size) if header.base_offset < self.start else bytearray([STAYS]) * size

    def look_up(self, found: Keys, base_offset: Offset, fates: bytearray) -> None:
        """Set the fates of the records below `start`: they are gone if their keys are in the map.

        Raises CorruptBatch.
        """
        if found.deltas and not 0 <= min(found.deltas) <= max(found.deltas) < len(fates):
            raise CorruptBatch("an offset delta beyond its batch")
        shards, first = self._shards, self.start - base_offset
        for key, delta in zip(found.keys, found.deltas, strict=True):
            if delta >= first or key is None:
                continue
            if len(key) >= _DIGEST_BYTES:
                key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
            if key not in shards[crc32(key) % _SHARDS]:
                fates[delta] = STAYS
        for number in found.tombstones:
            delta = found.deltas[number]
            if delta < first and fates[delta]:
                fates[delta] = TOMBSTONE
