"""An index file of a segment: entries of fixed size, ascending in their first field.

    .index      per `index.interval.bytes`: i32 last offset of a batch, relative to the segment's
                base, and i32 position of that batch
    .timeindex  i64 largest timestamp so far, i32 relative last offset of the batch that holds it

For: finding an entry by bisection, and growing, cutting and rebuilding the file. New entries are
buffered until `write`, and seen by every lookup at once. The file is opened at its first use. Left
to others: whether an entry is true; the log file alone is the truth.
"""

import struct
from bisect import bisect_left

from nodes.storage.disk import Disk, File

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")

Entry = tuple[int, int]


class IndexFile:
    """One index file, which may not be there yet."""

    def __init__(self, disk: Disk, path: str, entry: struct.Struct) -> None:
        self._disk = disk
        self._path = path
        self._entry = entry
        self._opened: File | None = None
        self._buffer = bytearray()
        self._unsynced = False

    @property
    def _file(self) -> File:
        if self._opened is None:
            self._opened = self._disk.open(self._path, create=True)
        return self._opened

    def is_whole(self) -> bool:
        """Whether the file exists and holds whole entries."""
        if self._opened is None:
            try:
                self._opened = self._disk.open(self._path)
            except FileNotFoundError:
                return False
        return self._opened.size() % self._entry.size == 0

    def __len__(self) -> int:
        return (self._file.size() + len(self._buffer)) // self._entry.size

    def __getitem__(self, number: int) -> Entry:
        at = number * self._entry.size
        written = self._file.size()
        if at < written:
            first, second = self._entry.unpack(self._file.pread(at, self._entry.size))
        else:
            first, second = self._entry.unpack_from(self._buffer, at - written)
        return first, second

    def last(self) -> Entry | None:
        """The last entry; None in an empty index."""
        count = len(self)
        return self[count - 1] if count else None

    def at_or_below(self, key: int, *, field: int = 0) -> Entry | None:
        """The last entry whose field 0 or 1 is at most `key`."""
        return self._last_before(key + 1, field)

    def below(self, key: int) -> Entry | None:
        """The last entry whose first field is less than `key`."""
        return self._last_before(key, 0)

    def _last_before(self, bound: int, field: int) -> Entry | None:
        """The last entry whose field is less than `bound`."""
        file, entry = self._file, self._entry  # not through `self[...]`: it doubles the time
        written = file.size()
        low, high = 0, len(self)
        found = None
        while low < high:
            middle = (low + high) // 2
            at = middle * entry.size
            if at < written:
                first, second = entry.unpack(file.pread(at, entry.size))
            else:
                first, second = entry.unpack_from(self._buffer, at - written)
            if (second if field else first) < bound:
                found, low = (first, second), middle + 1
            else:
                high = middle
        return found

    def add(self, first: int, second: int) -> None:
        """Add an entry at the end."""
        self._buffer += self._entry.pack(first, second)

    def write(self) -> None:
        """Write the buffered entries to the file."""
        if self._buffer:
            self._file.append(self._buffer)
            self._buffer = bytearray()
            self._unsynced = True

    def cut_from(self, second: int) -> None:
        """Drop the entries whose second field is at least `second`."""
        self.write()
        left = bisect_left(range(len(self)), second, key=lambda number: self[number][1])
        if left < len(self):
            self._file.truncate(left * self._entry.size)
            self._unsynced = True

    def clear(self) -> None:
        """Drop every entry."""
        self._buffer = bytearray()
        self.drop_written()

    def drop_written(self) -> None:
        """Drop every entry of the file; those that are only buffered stay."""
        if self._file.size():
            self._file.truncate(0)
            self._unsynced = True

    def match_buffer(self) -> bool:
        """Make the file what is buffered, all of the index; whether it was something else."""
        expected, self._buffer = self._buffer, bytearray()
        self._unsynced = True  # also when it is right: its writer may have died before a sync
        written = self._file.size()
        if written == len(expected) and self._file.pread(0, written) == expected:
            self._file.rewrite()
            return False
        self._file.truncate(0)
        self._file.append(expected)
        return True

    def unsynced(self) -> list[File]:
        """The file, if it was written since it was last said to be synced."""
        return [self._file] if self._unsynced else []

    def synced(self) -> None:
        """What `unsynced` gave has been synced."""
        self._unsynced = False

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
