"""An index file of a segment: entries of fixed size, ascending in their first field.

    .index      per `index.interval.bytes`: i32 last offset of a batch, relative to the segment's
                base, and i32 position of that batch
    .timeindex  i64 largest timestamp so far, i32 relative last offset of the batch that holds it

The class finds an entry by bisection, and extends, truncates and rebuilds the file. New entries are
buffered until `write`, and visible to every lookup at once. The file is opened at its first use.
The callers check whether an entry is correct: only the log file is authoritative.
"""

import struct
from bisect import bisect_left

from nodes.storage.disk import Disk, File

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")

Entry = tuple[int, int]


class IndexFile:
    """One index file, which may not exist yet."""

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
        """Whether the file exists and has only whole entries."""
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
        file, entry = self._file, self._entry  # without `self[...]`, which would double the time
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
        """Remove the entries whose second field is at least `second`."""
        self.write()
        self.drop_written_from(second)

    def clear(self) -> None:
        """Remove every entry."""
        self._buffer = bytearray()
        self.drop_written()

    def drop_written(self) -> None:
        """Remove every entry of the file; entries that are only buffered stay."""
        if self._file.size():
            self._file.truncate(0)
            self._unsynced = True

    def drop_written_from(self, second: int) -> None:
        """Remove the entries of the file whose second field is at least `second`; entries that are
        only buffered stay.
        """
        written = self._file.size() // self._entry.size
        left = bisect_left(range(written), second, key=lambda number: self[number][1])
        if left < written:
            self._file.truncate(left * self._entry.size)
            self._unsynced = True

    def match_buffer(self) -> bool:
        """Make the file equal to the buffer (the whole index); return whether it differed."""
        expected, self._buffer = self._buffer, bytearray()
        self._unsynced = True  # also if it is equal: its writer may have died before a sync
        written = self._file.size()
        if written == len(expected) and self._file.pread(0, written) == expected:
            self._file.rewrite()
            return False
        self._file.truncate(0)
        self._file.append(expected)
        return True

    def unsynced(self) -> list[File]:
        """The file, if it was written since the last call of `synced`."""
        return [self._file] if self._unsynced else []

    def synced(self) -> None:
        """The file returned by `unsynced` was synced."""
        self._unsynced = False

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
