"""One segment of a log: batches in a `.log` file, and Kafka's sparse indexes beside it. (The index
of aborted transactions is filled by `nodes.log.producer_state_manager`.)

A segment is opened in one of three ways: with `resume` (the active segment: its end is found from
the last index entry on), as sealed (nothing is read until a lookup), or by a scan of the whole file
(`scan`, `add_batch`, `match_indexes_to_log`: after a crash).

A lookup among the newest batches is a bisection in memory. Any other lookup is a bisection of the
index by preads, and a walk over one index interval. An index entry is used only if the batch that
it points at agrees; otherwise the indexes are rebuilt. Only the log file is authoritative. The
callers decide what is appended, and when it is made durable.
"""

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator

from nodes.ids import NO_EPOCH, NO_OFFSET, Offset
from nodes.log.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, read_header
from nodes.log.errors import CorruptBatch, LogCorrupt
from nodes.log.index import OFFSET_ENTRY, TIME_ENTRY, IndexFile
from nodes.log.transactions.aborted_index import AbortedIndex
from nodes.storage.disk import Disk, File

_EXTENT = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta: the header fields that a walk needs."""
_SCAN_BYTES = 64 * 1024
_LOOKUP_BYTES = 8 * 1024
_TAIL_BATCHES = 64 * 1024
"""How many batch positions stay in memory; at twice as many the older half is dropped."""
MAX_RELATIVE_OFFSET = 2**31 - 1


class Segment:
    """The batches from `base_offset` up to `next_offset`, in `size` bytes."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: Offset,
        index_interval_bytes: int,
        *,
        suffix: str = "",
    ) -> None:
        """Open the segment's file, or create it; its content is not known yet. `suffix` is added to
        the names of its files.
        """
        self._disk = disk
        self.stem = f"{directory}/{base_offset:020d}"
        self.base_offset = base_offset
        self.interval = index_interval_bytes
        self.file: File = disk.open(f"{self.stem}.log{suffix}", create=True)
        self.index = IndexFile(disk, f"{self.stem}.index{suffix}", OFFSET_ENTRY)
        self.time_index = IndexFile(disk, f"{self.stem}.timeindex{suffix}", TIME_ENTRY)
        self.aborted = AbortedIndex(disk, f"{self.stem}.txnindex{suffix}")
        self.deleted = False
        self._forget()

    def _forget(self) -> None:
        """Forget the file's content."""
        self.size = 0
        self.next_offset = self.base_offset
        self.first_timestamp = -1
        """The largest timestamp of the first batch: as in Kafka, it decides rolling by time."""
        self._largest_known = True
        self._largest_timestamp = -1
        self._largest_offset = NO_OFFSET
        self._bases = array("q")
        self._positions = array("q")
        self._timestamps = array("q")
        self.resumed_epoch = NO_EPOCH
        """The leader epoch of the last batch that `resume` read."""
        self._since_index = 0
        self._indexed_timestamp = -1
        self._read_on = (NO_OFFSET, 0)
        """The end of the last indexed read, where the reader's next read begins."""

    # --- opening

    def open_sealed(self, next_offset: Offset) -> None:
        """Trust the file; read nothing, unless an index is missing or damaged."""
        self.size = self.file.size()
        self.next_offset = next_offset
        self._largest_known = False

    def indexes_are_plausible(self) -> bool:
        """Whether both index files exist with whole entries, and both or none are empty."""
        if not (self.index.is_whole() and self.time_index.is_whole()):
            return False
        return bool(len(self.time_index)) or not (len(self.index) or self.file.size())

    def resume(self) -> None:
        """Find the file's end from its last index entry on; add missing index entries.

        Raises CorruptBatch if the batches from there on are invalid. Bytes after `size` are an
        incomplete batch.
        """
        self._forget()
        plausible = self.indexes_are_plausible()
        entry = self.index.last() if plausible else None
        if not plausible or (entry is not None and not self._says(entry)):
            entry = None
            self.index.clear()
            self.time_index.clear()
        if entry is not None:
            self.size = entry[1]
            first = read_header(self.file.pread(0, HEADER_BYTES))
            self.first_timestamp = first.max_timestamp
            self._take_largest_from_index(entry[0])
        indexed = len(self.index)
        expected = self.base_offset if entry is None else None
        for _, header in self.scan(self.size):
            if expected is not None and header.base_offset != expected:
                raise CorruptBatch(f"offset {header.base_offset} instead of {expected}")
            self.add_batch(
                header.base_offset, header.last_offset, header.size, header.max_timestamp
            )
            expected = header.next_offset
            self.resumed_epoch = header.partition_leader_epoch
        if len(self.index) > indexed or not self._time_index_ends_right():
            if entry is None:
                self.time_index.drop_written()
            else:
                self.time_index.drop_written_from(entry[0] + 1)

    def _time_index_ends_right(self) -> bool:
        """After reading the batches behind the last entry of the offset index: check the time that
        was written when the segment was closed. It is behind that entry, too.
        """
        relative = self._largest_offset - self.base_offset
        right = self.time_index.last() == (self._largest_timestamp, relative)
        if right:
            self._indexed_timestamp = self._largest_timestamp
        return right

    def _says(self, entry: tuple[int, int]) -> bool:
        """Whether an offset index entry agrees with the batch that it points at."""
        relative, position = entry
        try:
            header = read_header(self.file.pread(position, HEADER_BYTES))
        except CorruptBatch:
            return False
        return (
            header.last_offset == self.base_offset + relative
            and position + header.size <= self.file.size()
        )

    def _take_largest_from_index(self, relative: int | None = None) -> None:
        """Take it from the last entry, or from the last one up to a `relative` offset."""
        last = self.time_index.last()
        if last is not None and relative is not None and last[1] > relative:
            last = self.time_index.at_or_below(relative, field=1)
        self._largest_known = True
        if last is not None:
            self._largest_timestamp = self._indexed_timestamp = last[0]
            self._largest_offset = Offset(self.base_offset + last[1])

    def rebuild_indexes(self) -> None:
        """Rebuild both indexes from the log file."""
        sealed = not self._bases
        self.index.clear()
        self.time_index.clear()
        try:
            self.resume()
        except CorruptBatch as error:
            raise LogCorrupt(f"{self.stem}.log, rebuilding its indexes: {error}") from error
        if sealed:
            self.seal()

    # --- writing

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write whole batches at the end; `note` each of them afterwards."""
        self.file.append(data)

    def add_batch(
        self, base_offset: Offset, last_offset: Offset, size: int, max_timestamp: int
    ) -> None:
        """Store the position of the next batch of the file, and add an index entry when due."""
        if not self.size:
            self.first_timestamp = max_timestamp
        self._bases.append(base_offset)
        self._positions.append(self.size)
        self._timestamps.append(max_timestamp)
        if max_timestamp > self._largest_timestamp:
            self._largest_timestamp = max_timestamp
            self._largest_offset = last_offset
        if self._since_index > self.interval:
            self.index.add(last_offset - self.base_offset, self.size)
            self._note_time()
            self._since_index = 0
            if len(self._bases) >= 2 * _TAIL_BATCHES:
                del self._bases[:_TAIL_BATCHES]
                del self._positions[:_TAIL_BATCHES]
                del self._timestamps[:_TAIL_BATCHES]
        self._since_index += size
        self.size += size
        self.next_offset = Offset(last_offset + 1)

    def _note_time(self) -> None:
        if self._largest_timestamp > self._indexed_timestamp:
            self.time_index.add(self._largest_timestamp, self._largest_offset - self.base_offset)
            self._indexed_timestamp = self._largest_timestamp

    def finish_indexes(self) -> None:
        """Write all index entries and, last, the largest timestamp of all, as Kafka does."""
        self._note_time()
        self.index.write()
        self.time_index.write()

    def seal(self) -> None:
        """End appends: complete the indexes, forget the batch positions."""
        self.finish_indexes()
        self._bases = array("q")
        self._positions = array("q")
        self._timestamps = array("q")

    def rewrite(self, start: int) -> None:
        """Rewrite the file from position `start`, because the disk may lack cached data."""
        self.file.rewrite(start)

    def match_indexes_to_log(self, *, seal: bool) -> bool:
        """After `add_batch` of every batch: make the index files match; return whether any
        differed.
        """
        if seal:
            self._note_time()
        rewritten = [self.index.match_buffer(), self.time_index.match_buffer()]
        if seal:
            self.seal()
        return any(rewritten)

    def cut(self, position: int, end: Offset) -> None:
        """Truncate the log file at a batch's position and offset; it is then the active segment."""
        self.file.truncate(position)
        self.index.cut_from(position)
        self.time_index.cut_from(end - self.base_offset)
        self.aborted.cut_from(end)
        self.resume()

    # --- end of life

    def lookups_unsynced(self) -> list[File]:
        """The indexes of offsets and times that were written since they were last synced."""
        return [*self.index.unsynced(), *self.time_index.unsynced()]

    def lookups_synced(self) -> None:
        """The files returned by `lookups_unsynced` were synced."""
        self.index.synced()
        self.time_index.synced()

    def close(self) -> None:
        """Close the files."""
        self.file.close()
        self.index.close()
        self.time_index.close()
        self.aborted.close()

    def delete(self) -> None:
        """Close and remove the files, the log file last: an index alone is harmless."""
        self.deleted = True
        self.close()
        for suffix in (".txnindex", ".timeindex", ".index", ".log"):
            if self._disk.exists(self.stem + suffix):
                self._disk.unlink(self.stem + suffix)

    # --- reading

    def scan(
        self, start: int = 0, window_bytes: int = _SCAN_BYTES
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every batch from `start`, without an incomplete last batch.

        Raises CorruptBatch, as `read_header` does.
        """
        end = self.file.size()
        position = window_start = start
        window = b""
        while end - position >= HEADER_BYTES:
            at = position - window_start
            if at + HEADER_BYTES > len(window):
                window = self.file.pread(position, window_bytes)
                window_start, at = position, 0
            header = read_header(window, at)
            if position + header.size > end:
                return
            yield position, header
            position += header.size

    def read(self, offset: Offset, max_bytes: int, upper: Offset, *, at_least_one: bool) -> bytes:
        """Read whole batches from the one that contains `offset`, all of them below `upper`.

        At most `max_bytes`, but always the first batch with `at_least_one`. One pread.
        """
        bases = self._bases
        if not bases or offset < bases[0]:
            return self._read_indexed(offset, max_bytes, upper, at_least_one)
        first = bisect_right(bases, offset) - 1
        start = self._positions[first]
        if upper >= self.next_offset:
            end = self.size
        else:
            end = self._positions[bisect_right(bases, upper) - 1]
        if end - start > max_bytes:
            last = bisect_right(self._positions, start + max_bytes) - 1
            if last == first and at_least_one:
                last += 1  # exists: `end` lies beyond the first batch
            end = self._positions[last] if last < len(self._positions) else self.size
        return self.file.pread(start, end - start) if end > start else b""

    def _read_indexed(
        self, offset: Offset, max_bytes: int, upper: Offset, at_least_one: bool
    ) -> bytes:
        known, start = self._read_on
        if known != offset:
            start, _ = self.batch_at(offset)
        stop = self.size if upper >= self.next_offset else self.batch_at(upper)[0]
        if stop - start > max_bytes:
            next_offset, end = self._boundary(start, start + max_bytes, at_least_one)
        else:
            next_offset, end = min(upper, self.next_offset), stop
        if end <= start:
            return b""
        self._read_on = next_offset, end
        return self.file.pread(start, end - start)

    def _boundary(self, start: int, limit: int, at_least_one: bool) -> tuple[Offset, int]:
        """The last batch boundary at or before position `limit`: offset and position.

        With `at_least_one`: at least the end of the first batch from `start`.
        """
        far = limit - start > 2 * self.interval
        entry = self.index.at_or_below(limit, field=1) if far else None
        position = start
        if entry is not None and entry[1] > start:
            if not self._says(entry):
                self.rebuild_indexes()
                return self._boundary(start, limit, at_least_one)
            position = entry[1]
        window, window_start = b"", position
        next_offset = NO_OFFSET
        while True:
            at = position - window_start
            if at + _EXTENT.size > len(window):
                window, window_start, at = self.file.pread(position, _LOOKUP_BYTES), position, 0
            base, length, last_delta = _EXTENT.unpack_from(window, at)
            after = position + LOG_OVERHEAD_BYTES + length
            if length < HEADER_BYTES - LOG_OVERHEAD_BYTES or after > self.size:
                raise LogCorrupt(f"{self.stem}.log, position {position}: no batch begins there")
            if after > limit and not (at_least_one and position == start):
                return (next_offset if next_offset >= 0 else base), position
            next_offset, position = Offset(base + last_delta + 1), after
            if after > limit:
                return next_offset, position

    def batch_at(self, offset: Offset) -> tuple[int, BatchHeader]:
        """Position and header of the batch that contains `offset`, which is in this segment.

        Raises LogCorrupt if the file no longer has that batch.
        """
        if self._bases and offset >= self._bases[0]:
            position = self._positions[bisect_right(self._bases, offset) - 1]
            return position, read_header(self.file.pread(position, HEADER_BYTES))
        entry = self.index.at_or_below(offset - self.base_offset)
        if entry is not None and not self._says(entry):
            self.rebuild_indexes()
            return self.batch_at(offset)
        try:
            for position, header in self.scan(entry[1] if entry else 0, _LOOKUP_BYTES):
                if header.last_offset >= offset:
                    return position, header
        except CorruptBatch as error:
            raise LogCorrupt(f"{self.stem}.log, searching offset {offset}: {error}") from error
        raise LogCorrupt(f"{self.stem}.log holds no batch with offset {offset}")

    def largest_timestamp(self) -> tuple[int, Offset]:
        """The largest timestamp, and the last offset of the first batch with it; or (-1, -1)."""
        if not self._largest_known:
            self._take_largest_from_index()
        return self._largest_timestamp, self._largest_offset

    def first_batch_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 without one."""
        if self.size and self.first_timestamp < 0:
            self.first_timestamp = read_header(self.file.pread(0, HEADER_BYTES)).max_timestamp
        return self.first_timestamp

    def batch_from_time(self, timestamp_ms: int) -> tuple[int, BatchHeader] | None:
        """The first batch with a record at or after `timestamp_ms`; None if there is none."""
        if self.largest_timestamp()[0] < timestamp_ms:
            return None
        # No batch up to an entry's offset has a larger timestamp than the entry.
        entry = self.time_index.below(timestamp_ms)
        start = 0
        if entry is not None:
            start, _ = self.batch_at(Offset(self.base_offset + entry[1]))
        for position, header in self.scan(start):
            if header.max_timestamp >= timestamp_ms:
                return position, header
        return None
