"""Producer snapshots in Kafka's format: with them a start need not replay the log for producers.

The file `<offset>.snapshot` in a log's directory has the state of the producers when the log ended
at that offset. Layout, big endian:

    i16 version 1 | u32 CRC32C of all that follows | i32 number of entries | entries:
    i64 producer id | i16 epoch | i32 last sequence | i64 last offset | i32 offset delta
    | i64 timestamp | i32 coordinator epoch | i64 first offset of the open transaction

Kafka writes one entry for each producer, the last batch. This log writes up to five, oldest first,
so that it recognises a retry of any batch in flight after a restart. Kafka reads only the last
entry of each producer, which is the one that it would have written.

A file that does not match its CRC is never used. The callers sync the files (a lost file costs a
replay), and remove those above a truncation; that removal must be on disk before the next append.
"""

import re
import struct
from collections.abc import Iterable

from crc32c import crc32c

from nodes.ids import Offset
from nodes.log.batch import MAX_SEQUENCE
from nodes.log.producer_state import REMEMBERED_BATCHES, Producer, ProducerBatch, Producers
from nodes.storage.disk import Disk

_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1
_CHECKED_FROM = 6
_NAME = re.compile(r"(\d{20})\.snapshot")


class CorruptSnapshot(Exception):
    """Not a whole snapshot of a known version."""


def encode(producers: Producers) -> bytes:
    """The content of a snapshot file."""
    entries = bytearray()
    count = 0
    for producer_id, producer in producers.items():
        for batch in producer.batches or (ProducerBatch(-1, -1, Offset(-1), Offset(-1)),):
            entries += _ENTRY.pack(
                producer_id,
                producer.epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.last_offset - batch.base_offset,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.transaction_start,
            )
            count += 1
    checked = count.to_bytes(4, "big") + entries
    return _VERSION.to_bytes(2, "big") + crc32c(checked).to_bytes(4, "big") + checked


def decode(data: bytes) -> dict[int, Producer]:
    """Decode the producers of a snapshot file. Raises CorruptSnapshot."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version}, not {_VERSION}")
    if crc32c(memoryview(data)[_CHECKED_FROM:]) != crc:
        raise CorruptSnapshot("its CRC32C does not match")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes for {count} entries")
    producers: dict[int, Producer] = {}
    for fields in _ENTRY.iter_unpack(data[_HEADER.size :]):
        producer_id, epoch, sequence, last, delta, timestamp, coordinator_epoch, start = fields
        known = producers.get(producer_id)
        batches = known.batches if known is not None and known.epoch == epoch else ()
        if last >= 0:
            first = (sequence - delta) & MAX_SEQUENCE
            new = ProducerBatch(first, sequence, Offset(last - delta), Offset(last))
            batches = (*batches[1 - REMEMBERED_BATCHES :], new)
        producers[producer_id] = Producer(
            epoch, batches, timestamp, coordinator_epoch, Offset(start)
        )
    return producers


class Snapshots:
    """The snapshot files of one log."""

    def __init__(self, disk: Disk, directory: str, names: list[str]) -> None:
        """`names` are the names in the directory."""
        self._disk = disk
        self._directory = directory
        found = (_NAME.fullmatch(name) for name in names)
        self._offsets = sorted(Offset(int(match[1])) for match in found if match)

    def write(self, offset: Offset, producers: Producers) -> None:
        """Write the snapshot of a log that ends at `offset`; not synced."""
        self._disk.write_atomic(self._path(offset), encode(producers), durable=False)
        if offset not in self._offsets:
            self._offsets = sorted((*self._offsets, offset))

    def newest(self, end: Offset, first: Offset) -> tuple[Offset, dict[int, Producer]] | None:
        """The newest valid snapshot from `first` to `end`, with its offset."""
        for offset in reversed(self._offsets):
            if first <= offset <= end:
                try:
                    return offset, decode(self._disk.read(self._path(offset)))
                except CorruptSnapshot:
                    continue
        return None

    def has(self, offset: Offset) -> bool:
        """Whether there is a snapshot file of this offset."""
        return offset in self._offsets

    def remove_above(self, end: Offset) -> bool:
        """Remove snapshots above the log's end; return whether there were any. Durable after
        `sync_dir`.
        """
        return self._remove([offset for offset in self._offsets if offset > end])

    def remove_below(self, first: Offset) -> bool:
        """Remove snapshots below the log's first segment; return whether there were any."""
        return self._remove([offset for offset in self._offsets if offset < first])

    def remove(self, offsets: Iterable[Offset]) -> bool:
        """Remove the snapshots of these offsets, if any; return whether there were any."""
        return self._remove([offset for offset in offsets if offset in self._offsets])

    def keep(self, offsets: set[Offset]) -> bool:
        """Remove all snapshots except those of these offsets; return whether there were others."""
        return self._remove([offset for offset in self._offsets if offset not in offsets])

    def _remove(self, offsets: list[Offset]) -> bool:
        for offset in offsets:
            self._disk.unlink(self._path(offset))
        self._offsets = [offset for offset in self._offsets if offset not in offsets]
        return bool(offsets)

    def _path(self, offset: Offset) -> str:
        return f"{self._directory}/{offset:020d}.snapshot"
