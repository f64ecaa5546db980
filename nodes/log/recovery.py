"""Opening a log: what its files hold, and what a crash did to them.

After a clean shutdown the files are trusted, and only headers are read. After any other end, the
segments from the recovery point on are checked batch by batch against their CRCs, and the log ends
before the first damage that an interrupted write explains:

- a torn tail, damage that nothing follows;
- above the recovery point, a file that ends early, or pages that read as zeros because the kernel
  wrote back later pages first, and lost power between.

Anything else is damage to data that was whole once: LogCorrupt, and the operator (or the replica's
refetching) decides. Cutting there would quietly turn a flipped bit into a lost log (KAFKA-10778
and its like). Guarantees: what is left is on disk when `load` returns. Left to others: telling
anyone; `Recovery` says what was done.
"""

import dataclasses
import re

from nodes.ids import Offset
from nodes.log.batch import HEADER_BYTES, BatchHeader, check_crc, read_header
from nodes.log.epochs import LeaderEpochs
from nodes.log.errors import CorruptBatch, EpochRegression, LogCorrupt
from nodes.log.producers import Producers
from nodes.log.segment import Segment
from nodes.storage.disk import Disk, File

_PAGE_BYTES = 4096
_SEARCH_BYTES = 4 * 1024 * 1024
_LOG_FILE = re.compile(r"(\d{20})\.log")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What opening a log had to do; nothing, in a clean one."""

    validated_segments: int = 0
    cut_at: Offset | None = None
    """The end offset that was left, when damage was cut off."""
    cut_bytes: int = 0
    reason: str = ""
    rebuilt_indexes: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A log's content, as its files tell it."""

    segments: list[Segment]
    epochs: LeaderEpochs
    producers: Producers
    recovery: Recovery


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Damage:
    """The first place where a log's files stop making sense."""

    position: int
    offset: Offset
    reason: str
    short: bool
    """The file ends too early, rather than holding wrong bytes."""


def load(
    disk: Disk,
    directory: str,
    *,
    index_interval_bytes: int,
    clean: bool,
    recovery_point: Offset,
) -> Loaded:
    """Read, and where needed repair, the log in `directory`; raises LogCorrupt.

    A missing or empty directory is an empty log that begins at offset 0.
    """
    disk.makedirs(directory)
    bases = _segment_bases(disk, directory)
    segments: list[Segment] = []
    try:
        segments += [
            Segment(disk, directory, base, index_interval_bytes) for base in bases or [Offset(0)]
        ]
        loader = _Loader(disk, directory, segments, clean=clean, recovery_point=recovery_point)
        return loader.load()
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
        segments: list[Segment],
        *,
        clean: bool,
        recovery_point: Offset,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._clean = clean
        self._recovery_point = recovery_point
        self._epochs = LeaderEpochs()
        self._producers = Producers()
        self._validated = 0

    def load(self) -> Loaded:
        damage: _Damage | None = None
        number = 0
        for number, segment in enumerate(self._segments):
            damage = self._read(number, segment)
            if damage is not None:
                break
        cut_bytes = 0
        if damage is not None:
            self._refuse_unexplained(number, damage)
            cut_bytes = self._cut(number, damage.position)
        rebuilt = sum(
            segment.settle_indexes(seal=segment is not self._segments[-1])
            for segment in self._segments
        )
        if not self._clean:
            self._sync()
        recovery = Recovery(
            validated_segments=self._validated,
            cut_at=damage.offset if damage else None,
            cut_bytes=cut_bytes,
            reason=damage.reason if damage else "",
            rebuilt_indexes=rebuilt,
        )
        return Loaded(
            segments=self._segments,
            epochs=self._epochs,
            producers=self._producers,
            recovery=recovery,
        )

    def _must_validate(self, number: int) -> bool:
        """Whether the segment, or a part of it, may not have been flushed."""
        if self._clean:
            return False
        following = self._segments[number + 1 :]
        return not following or following[0].base_offset > self._recovery_point

    def _read(self, number: int, segment: Segment) -> _Damage | None:
        """Note every batch of a segment; the damage that ended it, if any did."""
        validate = self._must_validate(number)
        self._validated += validate
        try:
            for position, header in segment.scan():
                self._accept(segment, position, header, validate)
        except (CorruptBatch, EpochRegression) as error:
            return _Damage(
                position=segment.size, offset=segment.next_offset, reason=str(error), short=False
            )
        torn = segment.file.size() - segment.size
        reason = f"{torn} bytes of an incomplete batch" if torn else ""
        if not torn and number + 1 < len(self._segments):
            following = self._segments[number + 1].base_offset
            if following != segment.next_offset:
                reason = f"the next segment begins at offset {following}"
        if not reason:
            return None
        return _Damage(position=segment.size, offset=segment.next_offset, reason=reason, short=True)

    def _accept(self, segment: Segment, position: int, header: BatchHeader, validate: bool) -> None:
        if header.base_offset != segment.next_offset:
            raise CorruptBatch(f"offset {header.base_offset} instead of {segment.next_offset}")
        if validate:
            check_crc(segment.file.pread(position, header.size), 0, header)
        self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        segment.note(header.base_offset, header.last_offset, header.size, header.max_timestamp)
        self._producers.update(header, header.base_offset)

    def _refuse_unexplained(self, number: int, damage: _Damage) -> None:
        """Raise LogCorrupt unless an interrupted write explains the damage."""
        segment = self._segments[number]
        name = f"{self._directory}/{segment.base_offset:020d}.log"
        where = f"{name}, position {damage.position}, offset {damage.offset}: {damage.reason}"
        advice = (
            "The log was left as it is. If other replicas are in sync, move this directory away "
            "and start the node again: it will fetch the partition anew."
        )
        if self._clean:
            raise LogCorrupt(f"{where}, although the log was closed cleanly. {advice}")
        if not self._must_validate(number):
            raise LogCorrupt(f"{where}, below the recovery point {self._recovery_point}. {advice}")
        later = any(s.file.size() > 0 for s in self._segments[number + 1 :])
        survivor = _find_valid_batch(segment.file, damage.position + 1, damage.offset)
        if survivor is None and not later:
            return
        above = damage.offset >= self._recovery_point
        stop = survivor if survivor is not None else segment.file.size()
        if above and (
            (damage.short and survivor is None)
            or _has_unwritten_page(segment.file, damage.position, stop)
        ):
            return
        after = f"at position {survivor}" if survivor is not None else "in later segments"
        raise LogCorrupt(f"{where}, yet intact batches follow {after}. {advice}")

    def _cut(self, number: int, position: int) -> int:
        """End the log at `position` of a segment; the number of bytes cut off."""
        removed = 0
        for segment in reversed(self._segments[number + 1 :]):
            removed += segment.file.size()
            segment.delete()
        del self._segments[number + 1 :]
        last = self._segments[number].file
        removed += last.size() - position
        last.truncate(position)
        return removed

    def _sync(self) -> None:
        """What survived in the page cache of a crashed process may not be on disk yet."""
        for segment in self._segments:
            if segment.next_offset > self._recovery_point or segment is self._segments[-1]:
                segment.file.sync()
        self._disk.sync_dir(self._directory)
        self._disk.sync_dir(self._directory.rpartition("/")[0])


def _segment_bases(disk: Disk, directory: str) -> list[Offset]:
    """Base offsets of the log files; index files without their log file are removed."""
    names = disk.listdir(directory)
    logs = {match[1] for name in names if (match := _LOG_FILE.fullmatch(name))}
    for name in names:
        stem, _, suffix = name.rpartition(".")
        if suffix in ("index", "timeindex") and stem not in logs:
            disk.unlink(f"{directory}/{name}")
    return [Offset(int(stem)) for stem in sorted(logs)]


def _find_valid_batch(file: File, start: int, offset: Offset) -> int | None:
    """Position of the first intact batch at or after `start` with `offset` or a later one."""
    size = file.size()
    # Offsets of one segment share their upper half, but for a carry that would miss one batch.
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

    Either all that the file has of one page, or, as appends end where batches end, what it has of
    the first page from the first damaged batch on.
    """
    size = file.size()
    data = file.pread(start, min(stop - start, _SEARCH_BYTES))
    at = 0
    while at < len(data):
        page_end = min(at + _PAGE_BYTES - (start + at) % _PAGE_BYTES, size - start)
        if page_end <= len(data) and not any(data[at:page_end]):
            return True
        at = page_end
    return False
