"""The replacement of segments by a cleaned one, and its completion after a crash.

As in Kafka, the files of the new segment are written with the suffix `.cleaned`, renamed to
`.swap`, and then to their final names. The rename of the log file to `.log.swap` decides:

1. The `.cleaned` files are complete. The indexes are renamed to `.swap`. Contents and names are
   synced, all at once: without a `.log.swap` none of them counts.
2. The log file is renamed to `.log.swap`; that is synced. From here on the new segment counts.
3. The old segments are removed, except for the log file of the first, and the indexes get their
   final names; that is synced.
4. The log file gets its final name, and thereby replaces the old one.

A start that finds a `.log.swap` does steps 3 and 4: the new segment ends where the last old one
ended, so it knows which segments were replaced. All other `.cleaned` and `.swap` files are removed.
Unlike in Kafka, each step is on disk before the next, because a file system may restore any
unsynced change of a name. The indexes, also that of aborted transactions, belong to the swap
(KAFKA-12520, KAFKA-13727).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from nodes.ids import Offset
from nodes.log.batch import HEADER_BYTES, read_header
from nodes.log.errors import CorruptBatch, LogCorrupt
from nodes.log.producer_snapshots import Snapshots
from nodes.log.segment import Segment
from nodes.log.segments import Segments
from nodes.storage.disk import Disk, File

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
INDEXES: Final = (".index", ".timeindex", ".txnindex")

_TEMPORARY: Final = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex)\.(cleaned|swap)")
_SEGMENT_FILE: Final = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)")
_SCAN_BYTES: Final = 64 * 1024


def remove_files(disk: Disk, stem: str, suffix: str) -> None:
    """Remove a segment's files with this suffix, as far as they exist."""
    for kind in (*INDEXES, ".log"):
        if disk.exists(f"{stem}{kind}{suffix}"):
            disk.unlink(f"{stem}{kind}{suffix}")


def rename_indexes(disk: Disk, stem: str, source: str, target: str) -> None:
    """Rename a segment's indexes from one suffix to another, as far as they exist."""
    for kind in INDEXES:
        if disk.exists(f"{stem}{kind}{source}"):
            disk.rename(f"{stem}{kind}{source}", f"{stem}{kind}{target}")


def install(
    disk: Disk, directory: str, segments: Segments, snapshots: Snapshots, old: Sequence[Segment]
) -> None:
    """Steps 2 to 4: replace `old`, which are neighbours and sealed, by the cleaned segment. Blocks
    for two syncs of the directory. Raises OSError.
    """
    stem, end = old[0].stem, old[-1].next_offset
    disk.rename(f"{stem}.log{CLEANED}", f"{stem}.log{SWAP}")
    disk.sync_dir(directory)
    for segment in old:
        segment.deleted = True
        segment.close()
    snapshots.remove(segment.base_offset for segment in old[1:])
    _complete(disk, directory, old[0].base_offset, (segment.stem for segment in old[1:]))
    new = Segment(disk, directory, old[0].base_offset, old[0].interval)
    new.open_sealed(end)
    segments.replace(old, new)


def _complete(disk: Disk, directory: str, base: Offset, removed: Iterable[str]) -> None:
    """Steps 3 and 4; `removed` are the stems of the other replaced segments."""
    for stem in removed:
        remove_files(disk, stem, "")
    stem = f"{directory}/{base:020d}"
    rename_indexes(disk, stem, SWAP, "")
    disk.sync_dir(directory)
    disk.rename(f"{stem}.log{SWAP}", f"{stem}.log")


def finish_swaps(disk: Disk, directory: str) -> list[str]:
    """Complete the swaps that a crash interrupted, and remove what else a cleaner left; return the
    names in the directory. Blocks. Raises LogCorrupt, OSError.
    """
    names = disk.listdir(directory)
    temporary = [match for name in names if (match := _TEMPORARY.fullmatch(name))]
    if not temporary:
        return names
    swaps = [match[1] for match in temporary if match[2] == "log" and match[3] == "swap"]
    for match in temporary:
        if match[3] == "cleaned" or match[1] not in swaps:
            disk.unlink(f"{directory}/{match[0]}")
    for digits in swaps:
        base = Offset(int(digits))
        end = _end_of(disk, f"{directory}/{digits}.log{SWAP}", base)
        removed = []
        for name in names:
            other = _SEGMENT_FILE.fullmatch(name)
            if other and base < int(other[1]) < end:
                removed.append(other[1])
                if other[2] == "snapshot":
                    disk.unlink(f"{directory}/{name}")
        stems = (f"{directory}/{each}" for each in dict.fromkeys(removed))
        _complete(disk, directory, base, stems)
    disk.sync_dir(directory)
    return disk.listdir(directory)


def _end_of(disk: Disk, path: str, base: Offset) -> Offset:
    """Where a log file ends that begins at `base`."""
    file = disk.open(path)
    try:
        return _scan(file, base)
    except CorruptBatch as error:
        raise LogCorrupt(f"{path}: {error}") from error
    finally:
        file.close()


def _scan(file: File, base: Offset) -> Offset:
    size, position, end = file.size(), 0, base
    window, window_start = b"", 0
    while position < size:
        at = position - window_start
        if at + HEADER_BYTES > len(window):
            window, window_start, at = file.pread(position, _SCAN_BYTES), position, 0
        header = read_header(window, at)
        position += header.size
        end = header.next_offset
    if position != size:
        raise CorruptBatch("the last batch is incomplete")
    return end
