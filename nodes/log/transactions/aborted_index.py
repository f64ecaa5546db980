"""The index of a segment's aborted transactions, in Kafka's `.txnindex` file.

A consumer with isolation.level=read_committed drops the records of aborted transactions. It learns
which those are from its fetches, and a broker from this index. There is an entry for each abort
marker of the segment, in the order of the markers; the transaction may begin in an earlier segment.
Layout of an entry, big endian:

    i16 version 0 | i64 producer id | i64 first offset | i64 last offset (the marker's)
    | i64 LSO as of the marker: every transaction that began below it has ended up to here

The file exists from the first entry on. New entries are written at once. A writer that dies may
leave an index that does not match its segment, so after a crash the index is used only below the
recovery point, and rebuilt from the log above it (`nodes.log.recovery`).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from nodes.ids import Offset
from nodes.storage.disk import Disk, File

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0
_READ_ENTRIES = 256


class AbortedTransaction(NamedTuple):
    """One aborted transaction of one log."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    """The marker's offset."""
    last_stable_offset: Offset
    """The LSO that the marker makes possible."""


class AbortedIndex:
    """The index file of one segment, which may not exist."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._opened: File | None = None
        self._missing = False
        self._writes = self._synced = self._syncing = 0

    def exists_not(self) -> None:
        """The caller knows that there is no file yet; spares a look at the disk."""
        self._missing = True

    def _file(self) -> File | None:
        if self._opened is None and not self._missing:
            try:
                self._opened = self._disk.open(self._path)
            except FileNotFoundError:
                self._missing = True
        return self._opened

    def __len__(self) -> int:
        file = self._file()
        return 0 if file is None else file.size() // _ENTRY.size

    def is_sound(self) -> bool:
        """Whether there is no file, or one of whole entries of a known version in order."""
        file = self._file()
        if file is None:
            return True
        if file.size() % _ENTRY.size:
            return False
        last = -1
        for number in range(0, len(self), _READ_ENTRIES):
            data = file.pread(number * _ENTRY.size, _READ_ENTRIES * _ENTRY.size)
            for version, _, first, marker, _ in _ENTRY.iter_unpack(data):
                if version != _VERSION or not (first < marker and last < marker):
                    return False
                last = marker
        return True

    def add(self, entry: AbortedTransaction) -> bool:
        """Write an entry at the end; return whether that created the file."""
        created = self._file() is None
        if self._opened is None:
            self._opened = self._disk.open(self._path, create=True)
            self._missing = False
        self._opened.append(_pack(entry))
        self._writes += 1
        return created

    def overlapping(self, start: Offset, end: Offset) -> tuple[list[AbortedTransaction], bool]:
        """The entries of transactions with records or marker from `start` on that began below
        `end`; and whether no later segment can have more.
        """
        found: list[AbortedTransaction] = []
        file = self._file()
        if file is None:
            return found, False
        number, count = self._first_from(start), len(self)
        while number < count:
            data = file.pread(number * _ENTRY.size, _READ_ENTRIES * _ENTRY.size)
            for fields in _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]):
                entry = AbortedTransaction._make(fields[1:])
                if entry.first_offset < end:
                    found.append(entry)
                if entry.last_stable_offset >= end:
                    return found, True
            number += _READ_ENTRIES
        return found, False

    def cut_from(self, offset: Offset) -> None:
        """Remove the entries whose marker is at `offset` or above."""
        file = self._file()
        if file is not None:
            kept = self._first_from(offset)
            if kept < len(self):
                file.truncate(kept * _ENTRY.size)
                self._writes += 1

    def match(self, entries: Sequence[AbortedTransaction]) -> bool:
        """Make the file have these entries only, and durable; return whether it differed. Blocks.

        Equal content is written and synced too: its writer may have died before a sync.
        """
        file = self._file()
        if file is None and not entries:
            return False
        file = self._opened = file or self._disk.open(self._path, create=True)
        self._missing = False
        expected = b"".join(map(_pack, entries))
        equal = file.size() == len(expected) and file.pread(0, len(expected)) == expected
        if equal:
            file.rewrite()
        else:
            file.truncate(0)
            file.append(expected)
        file.sync()
        return not equal

    def _first_from(self, offset: Offset) -> int:
        """The number of the first entry whose marker is at `offset` or above."""
        file = self._file()
        low, high = 0, len(self)
        while file is not None and low < high:
            middle = (low + high) // 2
            fields = _ENTRY.unpack(file.pread(middle * _ENTRY.size, _ENTRY.size))
            if fields[3] < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def unsynced(self) -> list[File]:
        """The file, if it was written since it was last synced."""
        self._syncing = self._writes
        return [self._opened] if self._opened is not None and self._writes > self._synced else []

    def synced(self) -> None:
        """The file returned by the last call of `unsynced` was synced; later writes were not."""
        self._synced = self._syncing

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()


def _pack(entry: AbortedTransaction) -> bytes:
    return _ENTRY.pack(_VERSION, *entry)
