"""A partition's log (or the metadata log): batches in order, over segment files.

Guarantees: offsets are dense; leader epochs never go back; what is appended is at once readable,
and survives the death of the process; below `flushed_offset` it survives a loss of power. A batch
is judged by its header and CRC, stored as the bytes that came, and never decompressed. After a
failed write or sync the log refuses every further append (KAFKA-10778), for it can no longer say
what is on disk.

Left to others: the high watermark, who may append, and when to flush. The caller persists
`flushed_offset` as the recovery point, and lowers it there before it appends again after a
truncation.
"""

import asyncio
import dataclasses
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from nodes.ids import Epoch, Offset
from nodes.log import timestamps
from nodes.log.batch import BatchHeader, check_crc, iter_batches, patch, read_header
from nodes.log.checkpoints import CheckpointError, LeaderEpochCheckpoint
from nodes.log.errors import (
    EpochRegression,
    InvalidBatch,
    LogOffline,
    MessageTooLarge,
    OffsetGap,
    OffsetOutOfRange,
)
from nodes.log.producers import Producers
from nodes.log.recovery import Loaded, Recovery, load
from nodes.log.segment import MAX_RELATIVE_OFFSET, Segment
from nodes.storage.disk import Disk, File

NOTHING_FLUSHED = Offset(0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Kafka's log.segment.bytes, log.index.interval.bytes and message.max.bytes."""

    segment_bytes: int = 1 << 30
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1048588


class Appended(NamedTuple):
    """Where an append went; a duplicate says where it went the first time.

    An append of nothing has `last_offset` one below `base_offset`.
    """

    base_offset: Offset
    last_offset: Offset
    duplicate: bool


class Log:
    """One replica's log. Not for concurrent use, but by coroutines of one event loop."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, loaded: Loaded) -> None:
        """Use `Log.open`."""
        self.config = config
        self.recovery: Recovery = loaded.recovery
        self.producers: Producers = loaded.producers
        self._disk = disk
        self._directory = directory
        self._segments = loaded.segments
        self._epochs = loaded.epochs
        self._epoch_file = LeaderEpochCheckpoint(disk, directory)
        self._active = self._segments[-1]
        self._flushed = self._active.next_offset
        self._unsynced_dirs: list[str] = []
        self._truncations = 0
        self._flushing = asyncio.Lock()
        self._offline = ""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: Offset = NOTHING_FLUSHED,
    ) -> "Log":
        """Open the log in `directory`, making it when missing.

        `clean`: the node closed it in order. Otherwise everything from `recovery_point`, up to
        which it was flushed, is validated, and a torn tail cut; `recovery` tells. Blocks.
        Raises LogCorrupt, and the disk's OSError.
        """
        new = not disk.exists(directory)
        loaded = load(
            disk,
            directory,
            index_interval_bytes=config.index_interval_bytes,
            clean=clean or new,
            recovery_point=recovery_point,
        )
        log = cls(disk, directory, config, loaded)
        if new:
            log._unsynced_dirs = [directory, directory.rpartition("/")[0]]
        log._load_epochs(clean=clean)
        return log

    def _load_epochs(self, *, clean: bool) -> None:
        """Add to the epochs of the batches the one that was assigned but has no record yet.

        Only after a clean shutdown: the file is not synced, and may be of before a truncation.
        """
        try:
            stored = self._epoch_file.read()
        except CheckpointError:
            stored = []
        if stored and clean:
            epoch, start = stored[-1]
            if start == self.end_offset and epoch > self._epochs.latest:
                self._epochs.assign(epoch, start)
        if tuple(stored) != self._epochs.entries:
            self._epoch_file.write(self._epochs.entries)

    @property
    def offline(self) -> str:
        """Why the log refuses appends; empty while it takes them. Such a node is not clean."""
        return self._offline

    # --- where the log begins and ends

    @property
    def start_offset(self) -> Offset:
        """Offset of the first record, or of the next one in an empty log."""
        return self._segments[0].base_offset

    @property
    def end_offset(self) -> Offset:
        """LEO: the offset that the next record gets."""
        return self._active.next_offset

    @property
    def flushed_offset(self) -> Offset:
        """Everything below is on disk."""
        return self._flushed

    @property
    def last_epoch(self) -> Epoch:
        """Leader epoch of the last record; -1 without records.

        An epoch that was assigned but got no record does not count: a follower that reported it
        would be asked to truncate to an offset that it is already at.
        """
        return self._epochs.last_with_records(self.end_offset)

    @property
    def epochs(self) -> tuple[tuple[Epoch, Offset], ...]:
        """Leader epochs and their start offsets, oldest first."""
        return self._epochs.entries

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """The largest known epoch not above `epoch`, and where it ends; (-1, -1) when unknown."""
        return self._epochs.end_offset_for(epoch, self.end_offset)

    # --- appending

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        """Begin a leader epoch at the log's end, on becoming leader, before any append in it.

        Without it a follower that asks about an epoch older than this one, but newer than any
        record here, could not be answered. Raises EpochRegression, LogOffline, OSError.
        """
        assert start_offset == self.end_offset, "an epoch begins with the next record"
        self._check_online()
        if self._epochs.assign(epoch, start_offset):
            self._write_epochs()

    def append_as_leader(self, batches: bytes, leader_epoch: Epoch) -> Appended:
        """Append one batch of a producer, giving it the log's end as offset, and the epoch.

        Raises CorruptBatch, InvalidBatch, MessageTooLarge, OutOfOrderSequence,
        InvalidProducerEpoch, EpochRegression: nothing was appended. LogOffline and OSError: it may
        have been.
        """
        if self._offline:
            self._check_online()
        header = self._judge(batches)
        if header.producer_id >= 0:
            first = self.producers.check(header, whole_log=self.start_offset == 0)
            if first is not None:
                return Appended(first.base_offset, first.last_offset, True)
        if leader_epoch != self._epochs.latest:
            self.assign_epoch(leader_epoch, self.end_offset)
        size = len(batches)
        if self._is_full(size, header.last_offset_delta + 1):
            self._roll()
        active = self._active
        base_offset = active.next_offset
        last_offset = Offset(base_offset + header.last_offset_delta)
        data = bytearray(batches)
        patch(data, 0, base_offset=base_offset, leader_epoch=leader_epoch)
        self._write(data)
        active.note(base_offset, last_offset, size, header.max_timestamp)
        self.producers.update(header, base_offset)
        return Appended(base_offset, last_offset, False)

    def _judge(self, batches: bytes) -> BatchHeader:
        """The header of exactly one valid batch."""
        header = read_header(batches)
        size = header.size
        if len(batches) > self.config.max_message_bytes:
            raise MessageTooLarge(
                f"{len(batches)} bytes, more than the {self.config.max_message_bytes} allowed"
            )
        check_crc(batches, 0, header)
        if size != len(batches):
            raise InvalidBatch(f"{len(batches) - size} bytes after the one batch of a produce")
        if header.record_count != header.last_offset_delta + 1:
            raise InvalidBatch(
                f"{header.record_count} records with a last offset delta of "
                f"{header.last_offset_delta}"
            )
        return header

    def append_as_follower(self, batches: bytes) -> Appended:
        """Append the leader's batches byte for byte; an incomplete last one is left out.

        Raises CorruptBatch, OffsetGap, EpochRegression before anything is appended; LogOffline
        and OSError when some may have been.
        """
        self._check_online()
        whole = list(iter_batches(batches))
        base_offset = expected = self.end_offset
        epoch = self.last_epoch
        for pos, header in whole:
            check_crc(batches, pos, header)
            if header.base_offset != expected:
                raise OffsetGap(f"a batch at offset {header.base_offset} for a log at {expected}")
            if header.partition_leader_epoch < epoch:
                raise EpochRegression(
                    f"epoch {header.partition_leader_epoch} at offset {expected}, after {epoch}"
                )
            expected, epoch = header.next_offset, header.partition_leader_epoch
        view = memoryview(batches)
        start = 0
        while start < len(whole):
            start = self._append_run(view, whole, start)
        return Appended(base_offset, Offset(self.end_offset - 1), False)

    def _append_run(
        self, view: memoryview, whole: Sequence[tuple[int, BatchHeader]], start: int
    ) -> int:
        """Append as many batches from number `start` on as one segment takes; the next number."""
        first = whole[start][0]
        _, header = whole[start]
        if self._is_full(header.size, header.last_offset_delta + 1):
            self._roll()
        active = self._active
        stop = start + 1
        end = first + header.size
        while stop < len(whole):
            _, header = whole[stop]
            if active.size + end - first + header.size > self.config.segment_bytes:
                break
            if header.last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
                break
            end += header.size
            stop += 1
        changed = False
        for _, header in whole[start:stop]:
            if header.partition_leader_epoch != self._epochs.latest:
                changed |= self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        if changed:
            self._write_epochs()
        self._write(view[first:end])
        for _, header in whole[start:stop]:
            active.note(header.base_offset, header.last_offset, header.size, header.max_timestamp)
            self.producers.update(header, header.base_offset)
        return stop

    def _is_full(self, size: int, records: int) -> bool:
        active = self._active
        return active.size > 0 and (
            active.size + size > self.config.segment_bytes
            or active.next_offset + records - active.base_offset > MAX_RELATIVE_OFFSET
        )

    def _roll(self) -> None:
        """Seal the active segment and begin the next.

        The names so far become durable first: a log whose first file was lost would look like one
        whose start had been deleted.
        """
        with self._failing():
            self._active.seal()
            self._sync_names()
            self._begin_segment(self.end_offset)

    def _sync_names(self) -> None:
        while self._unsynced_dirs:
            self._disk.sync_dir(self._unsynced_dirs.pop())

    def _begin_segment(self, base_offset: Offset) -> None:
        self._active = Segment(
            self._disk, self._directory, base_offset, self.config.index_interval_bytes
        )
        self._segments.append(self._active)
        if self._directory not in self._unsynced_dirs:
            self._unsynced_dirs.append(self._directory)

    def _write(self, data: bytes | bytearray | memoryview) -> None:
        try:  # not `_failing`, which costs as much as the rest of an append's bookkeeping
            self._active.append(data)
        except OSError as error:
            self._offline = f"{self._directory}: {error}"
            raise

    def _write_epochs(self) -> None:
        with self._failing():
            self._epoch_file.write(self._epochs.entries)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Take the log offline when the disk fails."""
        try:
            yield
        except OSError as error:
            self._offline = f"{self._directory}: {error}"
            raise

    def _check_online(self) -> None:
        if self._offline:
            raise LogOffline(
                f"an earlier operation failed ({self._offline}); restart the node to recover"
            )

    # --- reading

    def read(
        self, offset: Offset, max_bytes: int, upper: Offset, *, at_least_one: bool = True
    ) -> bytes:
        """Whole batches from the one that holds `offset`, only those entirely below `upper`.

        At most `max_bytes` and within one segment; with `at_least_one` the first batch comes even
        when it is larger. Nothing at the log's end. Raises OffsetOutOfRange.
        """
        end = self._active.next_offset
        if not self.start_offset <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset} is not in {self.start_offset}..{end}")
        if offset == end or offset >= upper:
            return b""
        segment = self._segment_of(offset)
        return segment.read(offset, max_bytes, upper, at_least_one=at_least_one)

    def _segment_of(self, offset: Offset) -> Segment:
        if offset >= self._active.base_offset:
            return self._active
        number = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
        return self._segments[number - 1]

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[Offset, int] | None:
        """The first record at or after a wall-clock time, and its time; None when there is none.

        In a compressed batch that begins earlier, the answer is the batch's first offset: a
        consumer that starts there misses nothing.
        """
        return timestamps.first_at_or_after(self._segments, timestamp_ms)

    def max_timestamp(self) -> tuple[Offset, int]:
        """Offset and wall-clock time of the first record with the largest timestamp; or (-1, -1).

        In a compressed batch the offset is that of its last record.
        """
        return timestamps.largest(self._segments)

    def _headers(self, start: Offset) -> Iterator[BatchHeader]:
        """Headers of all batches from the one at `start` to the log's end."""
        if start >= self.end_offset:
            return
        segment = self._segment_of(start)
        position, _ = segment.batch_at(start)
        for later in self._segments[self._segments.index(segment) :]:
            for _, header in later.scan(position):
                yield header
            position = 0

    # --- truncating

    def truncate_to(self, offset: Offset) -> Offset:
        """Remove the batch that holds `offset` and all after it; the new end of the log.

        Blocks until the cut is on disk: were it not, later appends could come to lie before the
        old tail. Below the log's start it is `truncate_fully`. Raises LogOffline, OSError.
        """
        self._check_online()
        if offset < self.start_offset:
            self.truncate_fully(offset)
            return offset
        if offset >= self.end_offset:
            if self._epochs.truncate_from_end(offset):
                self._write_epochs()
            return self.end_offset
        with self._failing():
            self._cut(offset)
        if self._epochs.truncate_from_end(self.end_offset):
            self._write_epochs()
        rewound = max(self.producers.rewind(self.end_offset), self.start_offset)
        for header in self._headers(rewound):
            self.producers.update(header, header.base_offset)
        return self.end_offset

    def _cut(self, offset: Offset) -> None:
        segment = self._segment_of(offset)
        position, header = segment.batch_at(offset)
        self._truncations += 1
        self._flushed = min(self._flushed, header.base_offset)
        self._delete_segments_after(segment)
        self._active = segment
        self._unsynced_dirs.append(self._directory)
        self._sync_names()
        segment.cut(position)
        segment.file.sync()

    def truncate_fully(self, new_start: Offset) -> None:
        """Remove everything; the log begins anew, empty, at `new_start`."""
        self._check_online()
        self._truncations += 1
        self._flushed = new_start
        with self._failing():
            self._delete_segments_after(None)
            self._begin_segment(new_start)
            self._sync_names()
        self._epochs.clear()
        self._write_epochs()
        self.producers = Producers()

    def _delete_segments_after(self, kept: Segment | None) -> None:
        """Delete from the last segment backwards, so that a crash leaves no hole."""
        while self._segments and self._segments[-1] is not kept:
            self._segments.pop().delete()

    # --- making durable, and ending

    def flush(self) -> Offset:
        """Make everything durable; the flushed offset, which is then the end. Blocks."""
        self._check_online()
        with self._failing():
            for file in self._unflushed():
                file.sync()
            self._sync_names()
        self._flushed = self.end_offset
        return self._flushed

    async def flush_async(self) -> Offset:
        """Make what is in the log now durable, off the loop; the flushed offset.

        That is less than the end at the call only when the log was truncated meanwhile. Callers
        that come while a sync runs share the next one. Raises LogOffline, OSError.
        """
        self._check_online()
        truncations = self._truncations
        wanted = self.end_offset
        async with self._flushing:
            self._check_online()
            if self._flushed >= wanted or self._truncations != truncations:
                return self._flushed
            reached = self.end_offset
            directories = self._unsynced_dirs
            targets: list[File | str] = [*self._unflushed(), *directories]
            with self._failing():
                for target in targets:
                    await self._disk.sync(target)
                    if self._truncations != truncations:
                        # The file may be gone, and what was appended since is not synced. All
                        # names are: a truncation sees to that.
                        return self._flushed
            # Only now: a cancelled caller leaves them to the next.
            self._unsynced_dirs = [d for d in self._unsynced_dirs if d not in directories]
            self._flushed = max(self._flushed, reached)
            return self._flushed

    def _unflushed(self) -> list[File]:
        """The files to sync; indexes are rebuilt from the log files."""
        return [s.file for s in self._segments if s.next_offset > self._flushed]

    def close(self) -> None:
        """Complete the indexes, make everything durable, and close the files. Blocks.

        A log that is offline is closed as it is; the node must then leave no clean mark.
        """
        try:
            if not self._offline:
                self._active.finish_indexes()
                self.flush()
        finally:
            for segment in self._segments:
                segment.close()
            self._offline = self._offline or f"{self._directory}: closed"
