"""Opening of a log: loads its files and recovers them after a crash.

After a clean shutdown the files are trusted. Only the part of the active segment after its last
index entry is read; epochs and producers come from their files. After any other end, the segments
from the recovery point on are checked batch by batch against their CRCs. The log is truncated at
the first damage that an interrupted write explains:

- a torn tail: damage without valid data after it;
- above the recovery point, a file that ends early, or pages of zeros, because the kernel wrote back
  later pages first and lost power in between.

Any other damage raises LogCorrupt: the data was whole once, and the operator (or the refetch of the
replica) decides. A truncation there would turn a flipped bit into a lost log (see KAFKA-10778).
Data below the recovery point was flushed, including indexes and epochs (see `nodes.log.flushing`);
there only the ends of the segments are checked.

Validated data above the recovery point is rewritten in place. An earlier sync of it may have
failed, so that the page cache shows data that the disk does not have (KAFKA-10778), and the process
that got the error may have died without a report. The caller makes the result durable and reports
`Recovery`.
"""

import contextlib
import dataclasses
import re
from itertools import pairwise

from nodes.ids import NO_EPOCH, Offset
from nodes.log.batch import HEADER_BYTES, BatchHeader, check_crc, read_header
from nodes.log.checkpoints import CheckpointError, LeaderEpochCheckpoint
from nodes.log.cleaning.swap import finish_swaps
from nodes.log.errors import CorruptBatch, EpochRegression, LogCorrupt
from nodes.log.leader_epochs import EpochStart, LeaderEpochs
from nodes.log.producer_snapshots import Snapshots
from nodes.log.producer_state_manager import ProducerStateManager
from nodes.log.retention import below_start
from nodes.log.segment import Segment
from nodes.log.segments import Segments
from nodes.storage.disk import Disk, File

_PAGE_BYTES = 4096
_SEARCH_BYTES = 4 * 1024 * 1024
_LOG_FILE = re.compile(r"(\d{20})\.log")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The repairs made when a log was opened; none for a clean log."""

    validated_segments: int = 0
    cut_at: Offset | None = None
    """The new end offset, if damage was truncated."""
    cut_bytes: int = 0
    reason: str = ""
    rebuilt_indexes: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A log's content, loaded from its files."""

    segments: Segments
    epochs: LeaderEpochs
    epoch_file: LeaderEpochCheckpoint
    producer_state: ProducerStateManager
    start_offset: Offset
    clean: bool
    """Whether nothing needs a sync: the log was closed cleanly, or was just created."""
    recovery: Recovery


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Damage:
    """The first damage in a log's files."""

    position: int
    offset: Offset
    reason: str
    short: bool
    """Whether the file ends too early, instead of having wrong bytes."""


def load(
    disk: Disk,
    directory: str,
    *,
    index_interval_bytes: int,
    clean: bool,
    recovery_point: Offset,
    log_start: Offset,
) -> Loaded:
    """Load the log in `directory`, and repair it if necessary. Raises LogCorrupt.

    A missing or empty directory is an empty log that begins at `log_start`; so is a log that ends
    below `log_start`.
    """
    new = not disk.exists(directory)
    if new:
        disk.makedirs(directory)
    names = finish_swaps(disk, directory)
    bases = _segment_bases(disk, directory, names)
    segments: list[Segment] = []
    try:
        segments.extend(  # one by one: after an error, the opened segments must be closed
            Segment(disk, directory, base, index_interval_bytes) for base in bases or [log_start]
        )
        indexed = set(names)
        for segment in segments:
            if f"{segment.base_offset:020d}.txnindex" not in indexed:
                segment.aborted.exists_not()
        begun = Segments(disk, directory, segments, new=new)
        if not bases:
            begun.names_changed()
        begun.remove_oldest(below_start(bases[1:], log_start))
        loader = _Loader(disk, directory, begun, new or clean, recovery_point, log_start)
        return loader.load(Snapshots(disk, directory, names))
    except BaseException:
        for segment in segments:
            segment.close()
        raise


class _Loader:
    """One opening of one log."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: Segments,
        clean: bool,
        recovery_point: Offset,
        log_start: Offset,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._log = segments
        self._segments = segments.all
        self._clean = clean
        self._recovery_point = recovery_point
        self._log_start = log_start
        self._epochs = LeaderEpochs()
        self._epoch_file = LeaderEpochCheckpoint(disk, directory)
        self._validated = 0
        self._rebuilt = 0

    def load(self, snapshots: Snapshots) -> Loaded:
        trusted = sum(not self._must_validate(n) for n in range(len(self._segments)))
        number, damage = 0, None
        for number, segment in enumerate(self._segments):
            if number == trusted > 0:
                self._load_epochs(trusted)
            damage = self._trust(number, segment) if number < trusted else self._read(number)
            if damage is not None:
                break
        cut_bytes = 0
        if damage is not None:
            self._refuse_unexplained(number, damage)
            cut_bytes = self._cut(number, damage.position)
        elif trusted == len(self._segments):
            self._load_epochs(trusted)
        for segment in self._segments[trusted:]:
            self._rebuilt += segment.match_indexes_to_log(seal=segment is not self._log.active)
        end = self._log.active.next_offset
        lost = end < self._log_start
        if lost:  # the remaining records are deleted, and the later ones are lost
            snapshots.keep(set())
            self._log.begin_anew(self._log_start)
            end = self._log_start
            self._epochs.clear()
        elif snapshots.remove_above(end):
            self._disk.sync_dir(self._directory)
        start = Offset(max(self._segments[0].base_offset, self._log_start))
        self._epochs.truncate_from_start(start)
        if start == end and not lost:
            self._load_epoch_before(start)
        producer_state = ProducerStateManager(self._log, snapshots)
        self._rebuilt += producer_state.load(end, self._first_unsound(trusted))
        return Loaded(
            segments=self._log,
            epochs=self._epochs,
            epoch_file=self._epoch_file,
            producer_state=producer_state,
            start_offset=start,
            clean=self._clean,
            recovery=Recovery(
                validated_segments=self._validated,
                cut_at=damage.offset if damage else None,
                cut_bytes=cut_bytes,
                reason=damage.reason if damage else "",
                rebuilt_indexes=self._rebuilt,
            ),
        )

    def _first_unsound(self, trusted: int) -> int:
        """The number of the first segment whose index of aborted transactions is to be rebuilt, if
        the first `trusted` segments were not validated.
        """
        numbers = range(min(trusted, len(self._segments)))
        unsound = (n for n in numbers if not self._segments[n].aborted.is_sound())
        return next(unsound, trusted)

    def _must_validate(self, number: int) -> bool:
        """Whether the segment, a part of it or its indexes may not have been flushed.

        If all its records were flushed before it was sealed, its indexes were synced only with the
        next segment's first record.
        """
        if self._clean:
            return False
        following = self._segments[number + 1 :]
        return not following or following[0].base_offset >= self._recovery_point

    # --- trusting

    def _trust(self, number: int, segment: Segment) -> _Damage | None:
        """Open a segment without reading all of it; return damage if its end has changed."""
        active = segment is self._log.active
        plausible = segment.indexes_are_plausible()
        if self._clean and not active and plausible:
            segment.open_sealed(self._segments[number + 1].base_offset)
            return None
        try:
            segment.resume()
        except CorruptBatch as error:
            return _Damage(
                position=segment.size, offset=segment.next_offset, reason=str(error), short=False
            )
        if not plausible and segment.size:
            self._rebuilt += 1
        if not active:
            segment.seal()
        return self._early_end(number, segment)

    def _load_epochs(self, trusted: int) -> None:
        """Load the epochs of the first `trusted` segments, from their file or their batches."""
        end = self._segments[trusted - 1].next_offset
        try:
            stored = self._epoch_file.read()
        except CheckpointError:
            stored = []
        if not self._clean:  # later entries may be older than a truncation
            stored = [entry for entry in stored if entry[1] < end]
        if not self._believable(stored, end):
            stored = []
            for segment in self._segments[:trusted]:
                for _, header in segment.scan():
                    self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        for epoch, start in stored:
            self._epochs.assign(epoch, start)

    def _load_epoch_before(self, start: Offset) -> None:
        """Load the epoch of the last removed record of a log without records, which only the file
        has.

        After a power loss the file may be older than the log. Then the epoch may be older, too, and
        the log truncates below its end to be like its leader's.
        """
        if self._epochs.entries:
            return
        with contextlib.suppress(CheckpointError):
            earlier = [epoch for epoch, begin in self._epoch_file.read() if begin <= start]
            if earlier and start:
                self._epochs.assign(earlier[-1], start)

    def _believable(self, stored: list[EpochStart], end: Offset) -> bool:
        """Whether the file fits a log that ends at `end`, and has its first and last epoch.

        Only the file has an assigned epoch without records.
        """
        first = Offset(max(self._segments[0].base_offset, self._log_start))
        if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(stored)):
            return False
        if stored and stored[-1][1] > end:
            return False
        if end <= first:
            return True
        last = self._log.active.resumed_epoch if self._clean else NO_EPOCH
        of_records = [epoch for epoch, start in stored if start < end]
        return bool(of_records) and stored[0][1] <= first and last in (NO_EPOCH, of_records[-1])

    # --- validating

    def _read(self, number: int) -> _Damage | None:
        """Read every batch of a segment; return the first damage, if any."""
        segment = self._segments[number]
        self._validated += 1
        flushed_bytes = 0
        try:
            for position, header in segment.scan():
                self._accept(segment, position, header)
                if header.next_offset <= self._recovery_point:
                    flushed_bytes = position + header.size
        except (CorruptBatch, EpochRegression) as error:
            return _Damage(
                position=segment.size, offset=segment.next_offset, reason=str(error), short=False
            )
        finally:
            if flushed_bytes < segment.size:
                segment.rewrite(flushed_bytes)
        return self._early_end(number, segment)

    def _early_end(self, number: int, segment: Segment) -> _Damage | None:
        torn = segment.file.size() - segment.size
        reason = f"{torn} bytes of an incomplete batch" if torn else ""
        if not torn and number + 1 < len(self._segments):
            following = self._segments[number + 1].base_offset
            if following != segment.next_offset:
                reason = f"the next segment begins at offset {following}"
        if not reason:
            return None
        return _Damage(position=segment.size, offset=segment.next_offset, reason=reason, short=True)

    def _accept(self, segment: Segment, position: int, header: BatchHeader) -> None:
        if header.base_offset != segment.next_offset:
            raise CorruptBatch(f"offset {header.base_offset} instead of {segment.next_offset}")
        check_crc(segment.file.pread(position, header.size), 0, header)
        self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        segment.add_batch(header.base_offset, header.last_offset, header.size, header.max_timestamp)

    # --- damage

    def _refuse_unexplained(self, number: int, damage: _Damage) -> None:
        """Raise LogCorrupt unless an interrupted write explains the damage."""
        segment = self._segments[number]
        where = f"{segment.stem}.log, position {damage.position}, offset {damage.offset}"
        where = f"{where}: {damage.reason}"
        advice = (
            "The log was left as it is. If other replicas are in sync, move this directory away "
            "and start the node again: it will fetch the partition anew."
        )
        if self._clean:
            raise LogCorrupt(f"{where}, although the log was closed cleanly. {advice}")
        survivor = _find_valid_batch(segment.file, damage.position + 1, damage.offset)
        after = f"at position {survivor}" if survivor is not None else "in later segments"
        later = any(s.file.size() > 0 for s in self._segments[number + 1 :])
        follows = f", yet intact batches follow {after}" if survivor is not None or later else ""
        if damage.offset < self._recovery_point:
            below = f", below the recovery point {self._recovery_point}"
            raise LogCorrupt(f"{where}{below}{follows}. {advice}")
        if not follows:
            return
        stop = survivor if survivor is not None else segment.file.size()
        if (damage.short and survivor is None) or _has_unwritten_page(
            segment.file, damage.position, stop
        ):
            return
        raise LogCorrupt(f"{where}{follows}. {advice}")

    def _cut(self, number: int, position: int) -> int:
        """Truncate the log at `position` of a segment; return the number of removed bytes."""
        removed = 0
        for segment in reversed(self._segments[number + 1 :]):
            removed += segment.file.size()
            segment.delete()
        del self._segments[number + 1 :]
        self._log.active = self._segments[-1]
        self._log.names_changed()
        last = self._segments[number].file
        removed += last.size() - position
        last.truncate(position)
        return removed


def _segment_bases(disk: Disk, directory: str, names: list[str]) -> list[Offset]:
    """Base offsets of the log files; index files without their log file are removed."""
    logs = {match[1] for name in names if (match := _LOG_FILE.fullmatch(name))}
    for name in names:
        stem, _, suffix = name.rpartition(".")
        if suffix in ("index", "timeindex", "txnindex") and stem not in logs:
            disk.unlink(f"{directory}/{name}")
    return [Offset(int(stem)) for stem in sorted(logs)]


def _find_valid_batch(file: File, start: int, offset: Offset) -> int | None:
    """Position of the first valid batch at or after `start` with `offset` or a later offset."""
    size = file.size()
    # Offsets of one segment have the same upper half; a carry between them misses one batch.
    candidate = re.compile(
        b"(?=" + re.escape((offset >> 32).to_bytes(4, "big")) + rb".{12}\x02)", re.DOTALL
    )
    for window_start in range(start, size, _SEARCH_BYTES):
        window = file.pread(window_start, _SEARCH_BYTES + HEADER_BYTES)
        for match in candidate.finditer(window, 0, _SEARCH_BYTES + 16):
            position = window_start + match.start()
            try:
                header = read_header(file.pread(position, HEADER_BYTES))
                if header.base_offset < offset or header.size > size - position:
                    continue
                check_crc(file.pread(position, header.size), 0, header)
            except CorruptBatch:
                continue
            return position
    return None


def _has_unwritten_page(file: File, start: int, stop: int) -> bool:
    """Whether zeros between two positions show a page that was never written back.

    Either the file's whole part of a page is zero, or its part of the first page from the first
    damaged batch on (an append ends at the end of a batch).
    """
    size = file.size()
    # A valid batch may begin in such a page, because its offset begins with zeros.
    stop = min(stop + -stop % _PAGE_BYTES, size)
    data = file.pread(start, min(stop - start, _SEARCH_BYTES))
    at = 0
    while at < len(data):
        page_end = min(at + _PAGE_BYTES - (start + at) % _PAGE_BYTES, size - start)
        if page_end <= len(data) and not any(data[at:page_end]):
            return True
        at = page_end
    return False
