"""The cleaning of one log, in small steps.

First the keys of the dirty part are read into the offset map. Then all segments up to there are
written again, in groups, without what the map supersedes. A complete group is synced while the next
one is written, and then swapped in. Memory is bounded by the map, a window of the log, one
decompressed batch, and the indexes of two groups.

`steps` is a generator: the caller lets other tasks run between two steps, so that the event loop is
never held for long, and syncs what a step asks for. Before each step it is checked whether the log
is still the one of the beginning: a log that was closed, deleted or truncated, whose retention
removed a segment, or that is not compacted any more, ends the cleaning (KAFKA-7322, KAFKA-12840).
What was swapped in until then is good; the rest is cleaned another time.
"""

from array import array
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

from nodes.ids import Epoch, Offset
from nodes.log.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    BatchHeader,
    assemble,
    check_crc,
    iter_batches,
    read_header,
)
from nodes.log.cleaning.cleaned_segment import CleanedSegment
from nodes.log.cleaning.fillers import Fillers, filler
from nodes.log.cleaning.filtering import RecordFilter, is_remembered
from nodes.log.cleaning.grouping import grouped
from nodes.log.cleaning.offset_map import (
    GONE,
    STAYS,
    TOMBSTONE,
    OffsetMap,
    Portion,
)
from nodes.log.cleaning.spans import keep_records, no_keys, read_keys
from nodes.log.cleaning.swap import CLEANED, SWAP, install, rename_indexes
from nodes.log.cleaning.transactions import CleanedTransactions
from nodes.log.compression import decompress
from nodes.log.errors import CorruptBatch, LogCorrupt
from nodes.log.log import Log
from nodes.log.segment import Segment
from nodes.log.transactions.markers import decode_marker
from nodes.storage.disk import File

SLICE_US: Final = 2000.0
BATCH_US, KEY_US, FATE_US, SPAN_US, BYTE_US = 8.0, 1.0, 0.1, 0.4, 0.001
"""About how long the cleaner needs for a batch, each of its keys, each fate, each of the records of
a changed batch, and each of its bytes.
"""
RECORDS_PER_SLICE: Final = 1000


class CleaningEnded(Exception):
    """The log changed during its cleaning; the message says how."""


class Step(NamedTuple):
    """What the caller has to do before the next step."""

    io_bytes: int
    """How many bytes were read and written since the last step; for a throttle."""
    to_sync: Sequence[File | str] = ()
    """Files, and paths of directories, whose syncs begin now, in any order, best all at once: then
    a file system commits them together.
    """
    synced: bool = False
    """Whether all that was to be synced must be on the disk before the next step."""


class CleaningStats(NamedTuple):
    """What a cleaning has done."""

    end: Offset
    """The log is clean below; the cleaner checkpoint."""
    bytes_before: int
    bytes_after: int


class Replacement(NamedTuple):
    """A complete segment, and its neighbours that it replaces."""

    old: Sequence[Segment]
    new: CleanedSegment


class Cleaning:
    """One cleaning of `log`, of its dirty offsets up to `end`, which are on disk. `offsets`, which
    is empty, says where they begin.

    `now_ms` is wall-clock time.
    """

    def __init__(
        self,
        log: Log,
        end: Offset,
        *,
        offsets: OffsetMap,
        now_ms: int,
        window_bytes: int,
    ) -> None:
        assert log.config.compaction is not None, "only a compacted log is cleaned"
        # Otherwise a power loss could take the last record of a key after its earlier ones.
        assert end <= log.flushed_offset, "only what is on disk supersedes"
        self._log = log
        self._end = end
        self._offsets = offsets
        self._window_bytes = max(window_bytes, HEADER_BYTES)
        self._filter = RecordFilter(
            offsets, now_ms=now_ms, delete_retention_ms=log.config.compaction.delete_retention_ms
        )
        self._transactions = CleanedTransactions()
        self._cuts = log.segments.cuts
        self._reading: Sequence[Segment] = ()
        """The segments that must stay for the next step; first those that are being read."""
        self._complete: Replacement | None = None
        """What is written, and not swapped in yet."""
        self._io_bytes = 0
        self._spent_us = 0.0
        self.stats = CleaningStats(offsets.start, 0, 0)

    def steps(self) -> Generator[Step, None, None]:
        """Clean. The caller closes the generator if it does not take all steps.

        Raises CleaningEnded, LogCorrupt, OSError.
        """
        # The last name that an earlier cleaning gave is not synced yet. After a crash its `.swap`
        # would count, with the indexes of this one.
        self._reading = self._log.segments.all[:-1]
        yield from self._pause((self._log.segments.directory,), synced=True)
        try:
            yield from self._read_keys()
            for keys in self._offsets.decide():
                if self._worked(FATE_US * keys):
                    yield from self._pause()
            end = Offset(self._offsets.latest_offset + 1)
            segments = [s for s in self._log.segments.all[:-1] if s.base_offset < end]
            for group in grouped(segments, self._log.config.segment_bytes):
                yield from self._clean_group(group)
            yield from self._install_complete()
        except CorruptBatch as error:
            raise LogCorrupt(f"{self._reading[0].stem}.log, cleaning: {error}") from error
        finally:
            if self._complete is not None:
                self._complete.new.discard()
        self.stats = self.stats._replace(end=end)

    # --- giving way

    def _worked(self, us: float, io_bytes: int = 0) -> bool:
        """Add to the present slice; whether it is used up."""
        self._spent_us += us
        self._io_bytes += io_bytes
        return self._spent_us >= SLICE_US

    def _pause(self, to_sync: Sequence[File | str] = (), *, synced: bool = False) -> Iterator[Step]:
        io_bytes, self._io_bytes, self._spent_us = self._io_bytes, 0, 0.0
        yield Step(io_bytes, to_sync, synced)
        if self._log.offline:
            raise CleaningEnded(self._log.offline)
        if self._log.segments.cuts != self._cuts:
            raise CleaningEnded("the log was truncated")
        if self._log.config.compaction is None:
            raise CleaningEnded("the topic is not compacted any more")
        if any(segment.deleted for segment in self._reading):
            raise CleaningEnded("a segment was removed")

    def _batches(
        self, segment: Segment, position: int = 0
    ) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """Every batch of a segment from `position` on: its header, a window of the log that
        contains it, and its position there.
        """
        size, following, end = segment.file.size(), segment.base_offset, segment.next_offset
        while position < size:
            window = segment.file.pread(position, self._window_bytes)
            first = read_header(window)
            if first.size > len(window):
                window = segment.file.pread(position, first.size)
            used = 0
            for at, header in iter_batches(window):
                check_crc(window, at, header)
                base = header.base_offset
                beyond = base + header.last_offset_delta + 1
                if base < following or beyond > end:
                    raise CorruptBatch(f"offset {base}, not {following} or later")
                following, used = Offset(beyond), at + header.size
                yield header, window, at
            if not used:
                raise CorruptBatch(f"an incomplete batch at position {position}")
            position += used

    # --- the keys of the dirty part

    def _read_keys(self) -> Iterator[Step]:
        start = self._offsets.start
        portion = Portion(start)
        transactions = CleanedTransactions()
        transactions.add(self._log.aborted_transactions(start, self._end))
        for segment in self._log.segments.all[:-1]:
            if segment.next_offset <= start or segment.base_offset >= self._end:
                continue
            self._reading = (segment,)
            position = segment.batch_at(start)[0] if segment.base_offset < start else 0
            for header, window, at in self._batches(segment, position):
                if header.attributes & CONTROL_BIT:
                    transactions.read_marker(header, decode_marker(_whole(header, window, at)))
                elif not transactions.read_batch(header):
                    portion.begin(header)
                    data, begin, stop = _records(header, window, at)
                    for count in _slices(header.record_count):
                        begin = portion.read(
                            data, begin, count, end=stop, last_delta=header.last_offset_delta
                        )
                        if self._worked(KEY_US * count):
                            if not self._offsets.add(portion):
                                return
                            yield from self._pause()
                portion.reach(header.last_offset)
                if self._worked(BATCH_US + BYTE_US * header.size, header.size):
                    if not self._offsets.add(portion):
                        return
                    yield from self._pause()
            portion.reach(Offset(segment.next_offset - 1))
        self._offsets.add(portion)

    # --- writing

    def _clean_group(self, group: Sequence[Segment]) -> Iterator[Step]:
        """Write a group of segments again. Unless the new segment is the same, swap the group
        before it in, and begin to sync the new one.
        """
        self._reading = [*group, *(self._complete.old if self._complete else ())]
        disk, directory = self._log.segments.disk, self._log.segments.directory
        cleaned = CleanedSegment(disk, directory, group[0].base_offset, group[0].interval)
        complete = False
        try:
            same = yield from self._write_group(group, cleaned)
            before = sum(segment.size for segment in group)
            self.stats = self.stats._replace(
                bytes_before=self.stats.bytes_before + before,
                bytes_after=self.stats.bytes_after + cleaned.size,
            )
            aborted, self._transactions.retained = self._transactions.retained, []
            if same and len(group) == 1:
                return
            indexed = any(disk.exists(f"{segment.stem}.txnindex") for segment in group)
            files = cleaned.finish(aborted if aborted or indexed else None)
            rename_indexes(disk, group[0].stem, CLEANED, SWAP)
            yield from self._install_complete()
            self._complete, complete = Replacement(group, cleaned), True
            yield from self._pause((*files, directory))
        finally:
            if not complete:
                cleaned.discard()

    def _install_complete(self) -> Iterator[Step]:
        """Swap the group in that is complete, if there is one, as soon as it is on the disk."""
        if self._complete is None:
            return
        yield from self._pause(synced=True)
        log, (old, new), self._complete = self._log, self._complete, None
        new.close()
        with log.health.failing():
            install(log.segments.disk, log.segments.directory, log.segments, log.snapshots, old)
        self._reading = [segment for segment in self._reading if segment not in old]
        yield from self._pause()

    def _write_group(
        self, group: Sequence[Segment], cleaned: CleanedSegment
    ) -> Generator[Step, None, bool]:
        """Write what stays of the segments; whether that is all."""
        same = True
        fillers = Fillers()
        last_epoch: Epoch | None = None
        following = group[0].base_offset
        for segment in group:
            aborted = self._log.aborted_transactions(segment.base_offset, segment.next_offset)
            self._transactions.add(aborted)
            for header, window, at in self._batches(segment):
                epoch = header.partition_leader_epoch
                if header.base_offset > following:  # a gap, left by Apache Kafka
                    before = epoch if last_epoch is None else last_epoch
                    gap = filler(following, header.base_offset, before)
                    cleaned.append_empty(fillers.remove(gap))
                    same = False
                kept = None
                discarded, ended = self._transaction_fate(header, window, at)
                if not discarded and header.record_count:
                    kept = yield from self._filtered(header, window, at, ended)
                if kept is None:
                    kept = self._bare(header, window, at)
                if kept is None:
                    cleaned.append_empty(fillers.remove(header))
                    same &= header.is_filler
                    written = 0
                else:
                    cleaned.append_empty(fillers.take())
                    cleaned.append(*kept)
                    same &= kept[0] is header
                    written = len(kept[1])
                following, last_epoch = header.next_offset, epoch
                size = header.size
                if self._worked(BATCH_US + BYTE_US * size, size + written):
                    yield from self._pause()
            if segment.next_offset > following and last_epoch is not None:
                end = filler(following, segment.next_offset, last_epoch)
                cleaned.append_empty(fillers.remove(end))
                following, same = segment.next_offset, False
        cleaned.append_empty(fillers.take())
        return same

    def _transaction_fate(self, header: BatchHeader, window: bytes, at: int) -> tuple[bool, bool]:
        """Whether the batch's records may be discarded because of their transaction, and whether
        the batch is the marker of one of which no batch is left.
        """
        if not header.attributes & CONTROL_BIT:
            return self._transactions.read_batch(header), False
        marker = decode_marker(_whole(header, window, at))
        ended = self._transactions.read_marker(header, marker)
        return ended and self._filter.horizon_is_over(header), ended

    def _bare(
        self, header: BatchHeader, window: bytes, at: int
    ) -> tuple[BatchHeader, bytes] | None:
        """The batch without records, with its header, if its producer's state needs it."""
        if not is_remembered(self._log.producers, header):
            return None
        if not header.record_count:
            return header, _whole(header, window, at)
        bare = header.without_records()
        return bare, assemble(bare)

    def _filtered(
        self, header: BatchHeader, window: bytes, at: int, ended: bool
    ) -> Generator[Step, None, tuple[BatchHeader, bytes] | None]:
        """The batch with those of its records that stay, with its header; None if there are
        none.
        """
        stays = header.attributes & CONTROL_BIT or self._filter.keeps_all(header)
        if stays and not ended:
            return header, _whole(header, window, at)
        records = None
        found = None if stays else self._offsets.remembered(header)
        if found is None:
            records = _records(header, window, at)
            found = yield from self._read_again(header, records, stays=bool(stays))
        fates, sizes = self._filter.retained(header, found[0]), found[1]
        gone = fates.count(GONE)
        if gone == len(fates):
            return None
        waits = ended or TOMBSTONE in fates
        if not gone and (header.has_delete_horizon or not waits):
            return header, _whole(header, window, at)
        kept: list[bytes] = []
        data, start, _ = records or _records(header, window, at)
        for first in range(0, len(fates), RECORDS_PER_SLICE):
            part = slice(first, first + RECORDS_PER_SLICE)
            start = keep_records(kept, data, start, sizes[part], fates[part])
            if self._worked(SPAN_US * min(len(fates), RECORDS_PER_SLICE)):
                yield from self._pause()
        return self._filter.rewritten(header, kept, waits=waits)

    def _read_again(
        self, header: BatchHeader, records: tuple[bytes, int, int], *, stays: bool
    ) -> "Generator[Step, None, tuple[bytearray, array[int]]]":
        """What the map does not remember of a batch. With `stays` all its records stay."""
        fates, sizes = bytearray(), array("I")
        data, at, end = records
        for count in _slices(header.record_count):
            found = no_keys()
            at = read_keys(found, data, at, count, end=end, last_delta=header.last_offset_delta)
            if stays:
                fates += bytes([STAYS]) * count
            else:
                fates += self._offsets.look_up(header, found, len(fates))
            sizes.extend(found.sizes)
            if self._worked(KEY_US * count):
                yield from self._pause()
        return fates, sizes


def _whole(header: BatchHeader, window: bytes, at: int) -> bytes:
    """The batch at position `at`."""
    return window[at : at + header.size]


def _records(header: BatchHeader, window: bytes, at: int) -> tuple[bytes, int, int]:
    """The decompressed records of the batch at position `at`: a buffer, their begin and end."""
    if not header.compression:
        return window, at + HEADER_BYTES, at + header.size
    data = decompress(header.compression, window[at + HEADER_BYTES : at + header.size])
    return data, 0, len(data)


def _slices(count: int) -> Sequence[int]:
    """So many records, a limited number at a time."""
    if count <= RECORDS_PER_SLICE:
        return (count,)
    whole, rest = divmod(count, RECORDS_PER_SLICE)
    return [RECORDS_PER_SLICE] * whole + [rest] * (rest > 0)
