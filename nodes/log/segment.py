"""One segment of a log: batches in a `.log` file, and Kafka's sparse indexes beside it.

    .log        record batches, end to end
    .index      per `index_interval_bytes`: i32 last offset of a batch, relative to the segment's
                base, and i32 position of that batch
    .timeindex  i64 largest timestamp so far, i32 relative last offset of the batch that holds it

Guarantees: a lookup in the active segment is a bisection in memory; in a sealed one, a bisection
of its index by preads and a walk over at most an index interval. Index entries are buffered until
the segment is sealed, closed or asked for a time, and are rebuilt when the log is opened; the log
file alone is the truth. Left to others: what may be appended, and what is durable.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from nodes.ids import NO_OFFSET, Offset
from nodes.log.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, read_header
from nodes.storage.disk import Disk, File

_INDEX_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_EXTENT = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta: the part of a header that a walk needs."""
_SCAN_BYTES = 64 * 1024
MAX_RELATIVE_OFFSET = 2**31 - 1


class Segment:
    """The batches from `base_offset` up to `next_offset`, in `size` bytes.

    The active segment, the log's last, knows each of its batches' offset, position and largest
    timestamp; sealing it drops them.
    """

    def __init__(
        self, disk: Disk, directory: str, base_offset: Offset, index_interval_bytes: int
    ) -> None:
        self._disk = disk
        self._stem = f"{directory}/{base_offset:020d}"
        self._interval = index_interval_bytes
        self.base_offset = base_offset
        self.file: File = disk.open(f"{self._stem}.log", create=True)
        self._index = disk.open(f"{self._stem}.index", create=True)
        self._time_index = disk.open(f"{self._stem}.timeindex", create=True)
        self.sealed = False
        self._reset()

    def _reset(self) -> None:
        """Know nothing of the file's content."""
        self.size = 0
        self.next_offset = self.base_offset
        self.max_timestamp = -1
        self.max_timestamp_offset = NO_OFFSET
        self._bases = array("q")
        self._positions = array("q")
        self._timestamps = array("q")
        self._since_index = 0
        self._indexed_timestamp = -1
        self._index_buffer = bytearray()
        self._time_buffer = bytearray()

    # --- writing

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write whole batches at the end; `note` each of them afterwards."""
        self.file.append(data)

    def note(self, base_offset: Offset, last_offset: Offset, size: int, max_timestamp: int) -> None:
        """Account for the next batch of the file: its position, and an index entry when due."""
        self._bases.append(base_offset)
        self._positions.append(self.size)
        self._timestamps.append(max_timestamp)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._since_index > self._interval:
            relative = last_offset - self.base_offset
            self._index_buffer += _INDEX_ENTRY.pack(relative, self.size)
            self._note_time()
            self._since_index = 0
        self._since_index += size
        self.size += size
        self.next_offset = Offset(last_offset + 1)

    def _note_time(self) -> None:
        if self.max_timestamp > self._indexed_timestamp:
            relative = self.max_timestamp_offset - self.base_offset
            self._time_buffer += _TIME_ENTRY.pack(self.max_timestamp, relative)
            self._indexed_timestamp = self.max_timestamp

    def write_indexes(self) -> None:
        """Write the buffered index entries to their files."""
        if self._index_buffer:
            self._index.append(self._index_buffer)
            self._index_buffer = bytearray()
        if self._time_buffer:
            self._time_index.append(self._time_buffer)
            self._time_buffer = bytearray()

    def finish_indexes(self) -> None:
        """Write all index entries and, last, the largest timestamp of all, as Kafka does."""
        self._note_time()
        self.write_indexes()

    def seal(self) -> None:
        """Nothing more will be appended: complete the indexes, forget the batch positions."""
        self.finish_indexes()
        self._forget_positions()

    def _forget_positions(self) -> None:
        self.sealed = True
        self._bases = array("q")
        self._positions = array("q")
        self._timestamps = array("q")

    def settle_indexes(self, *, seal: bool) -> bool:
        """After every batch of the file was noted: make the index files say so, rewriting them
        where they differ; whether any did.
        """
        if seal:
            self._note_time()
            self._forget_positions()
        rewritten = False
        for file, expected in (
            (self._index, self._index_buffer),
            (self._time_index, self._time_buffer),
        ):
            if file.size() != len(expected) or file.pread(0, file.size()) != expected:
                file.truncate(0)
                file.append(expected)
                rewritten = True
        self._index_buffer = bytearray()
        self._time_buffer = bytearray()
        return rewritten

    def cut(self, position: int) -> None:
        """Cut the log file at a batch's position; the segment is, or becomes, the active one."""
        self.file.truncate(position)
        if self.sealed:
            self.sealed = False
            self._reset()
            for _, header in self.scan():
                self.note(header.base_offset, header.last_offset, header.size, header.max_timestamp)
            self.settle_indexes(seal=False)
        elif position < self.size:
            self._forget_from(position)

    def _forget_from(self, position: int) -> None:
        """Go back to before the batch at `position` was noted, without reading the file."""
        kept = bisect_left(self._positions, position)
        self.size = position
        self.next_offset = Offset(self._bases[kept])
        del self._bases[kept:]
        del self._positions[kept:]
        del self._timestamps[kept:]
        self.write_indexes()
        entries = range(self._index.size() // _INDEX_ENTRY.size)
        left = bisect_left(entries, position, key=lambda entry: self._index_entry(entry)[1])
        self._index.truncate(left * _INDEX_ENTRY.size)
        self._since_index = position - (self._index_entry(left - 1)[1] if left else 0)
        relative_end = self.next_offset - self.base_offset
        entries = range(self._time_index.size() // _TIME_ENTRY.size)
        left = bisect_left(entries, relative_end, key=lambda entry: self._time_entry(entry)[1])
        self._time_index.truncate(left * _TIME_ENTRY.size)
        self.max_timestamp, self.max_timestamp_offset, unindexed = -1, NO_OFFSET, 0
        if left:
            self.max_timestamp, relative = self._time_entry(left - 1)
            self.max_timestamp_offset = Offset(self.base_offset + relative)
            unindexed = bisect_right(self._bases, self.max_timestamp_offset)
        self._indexed_timestamp = self.max_timestamp
        tail = self._timestamps[unindexed:]
        if tail and max(tail) > self.max_timestamp:
            self.max_timestamp = max(tail)
            after = unindexed + tail.index(self.max_timestamp) + 1
            end = self._bases[after] if after < kept else self.next_offset
            self.max_timestamp_offset = Offset(end - 1)

    # --- end of life

    def close(self) -> None:
        """Close the files."""
        self.file.close()
        self._index.close()
        self._time_index.close()

    def delete(self) -> None:
        """Close and remove the files, the log file last: an index alone means nothing."""
        self.close()
        for suffix in (".timeindex", ".index", ".log"):
            self._disk.unlink(self._stem + suffix)

    # --- reading

    def scan(self, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every batch from `start`; raises CorruptBatch as `read_header`.

        Stops before a last batch that is incomplete.
        """
        end = self.file.size()
        position = window_start = start
        window = b""
        while end - position >= HEADER_BYTES:
            at = position - window_start
            if at + HEADER_BYTES > len(window):
                window = self.file.pread(position, _SCAN_BYTES)
                window_start, at = position, 0
            header = read_header(window, at)
            if position + header.size > end:
                return
            yield position, header
            position += header.size

    def read(self, offset: Offset, max_bytes: int, upper: Offset, *, at_least_one: bool) -> bytes:
        """Whole batches from the one that holds `offset`, all of them below `upper`.

        At most `max_bytes`, but the first batch whole in any case when `at_least_one`.
        """
        if self.sealed:
            return self._read_sealed(offset, max_bytes, upper, at_least_one)
        first = bisect_right(self._bases, offset) - 1
        start = self._positions[first]
        if upper >= self.next_offset:
            end = self.size
        else:
            end = self._positions[bisect_right(self._bases, upper) - 1]
        if end - start > max_bytes:
            last = bisect_right(self._positions, start + max_bytes) - 1
            if last == first and at_least_one:
                last += 1  # exists: `end` lies beyond the first batch
            end = self._positions[last] if last < len(self._positions) else self.size
        return self.file.pread(start, end - start) if end > start else b""

    def _read_sealed(
        self, offset: Offset, max_bytes: int, upper: Offset, at_least_one: bool
    ) -> bytes:
        position, header = self.batch_at(offset)
        window = self.file.pread(position, max(max_bytes, header.size if at_least_one else 0))
        end = 0
        while len(window) - end >= _EXTENT.size:
            base, length, last_delta = _EXTENT.unpack_from(window, end)
            after = end + LOG_OVERHEAD_BYTES + length
            if after > len(window) or base + last_delta >= upper:
                break
            end = after
        return window[:end]

    def batch_at(self, offset: Offset) -> tuple[int, BatchHeader]:
        """Position and header of the batch that holds `offset`, which is in this segment."""
        if not self.sealed:
            position = self._positions[bisect_right(self._bases, offset) - 1]
            return position, read_header(self.file.pread(position, HEADER_BYTES))
        relative = offset - self.base_offset
        entries = range(self._index.size() // _INDEX_ENTRY.size)
        found = bisect_right(entries, relative, key=lambda entry: self._index_entry(entry)[0])
        start = self._index_entry(found - 1)[1] if found else 0
        for position, header in self.scan(start):
            if header.last_offset >= offset:
                return position, header
        raise AssertionError(f"offset {offset} is not in the segment at {self.base_offset}")

    def _index_entry(self, entry: int) -> tuple[int, int]:
        size = _INDEX_ENTRY.size
        relative, position = _INDEX_ENTRY.unpack(self._index.pread(entry * size, size))
        return relative, position

    def _time_entry(self, entry: int) -> tuple[int, int]:
        size = _TIME_ENTRY.size
        stamp, relative = _TIME_ENTRY.unpack(self._time_index.pread(entry * size, size))
        return stamp, relative

    def batch_from_time(self, timestamp_ms: int) -> tuple[int, BatchHeader] | None:
        """The first batch with a record at or after `timestamp_ms`; None when there is none."""
        if self.max_timestamp < timestamp_ms:
            return None
        self.write_indexes()
        entries = range(self._time_index.size() // _TIME_ENTRY.size)
        # All batches up to an entry's offset have no larger timestamp than the entry.
        found = bisect_left(entries, timestamp_ms, key=lambda entry: self._time_entry(entry)[0])
        start = 0
        if found:
            start, _ = self.batch_at(Offset(self.base_offset + self._time_entry(found - 1)[1]))
        for position, header in self.scan(start):
            if header.max_timestamp >= timestamp_ms:
                return position, header
        return None
