"""A log of which a write or a sync has failed: what the page cache holds of it is not believed.

A kernel reports a failed write-back once, and takes the pages for clean ("fsyncgate", KAFKA-10778):
they are read as if they were on the disk, the next sync succeeds, and a loss of power takes them. A
process that is started again reads that same cache. So whoever fails leaves a mark, and whoever
opens a marked log writes what it may not have on the disk into new files, before anything counts on
it. The mark need not survive a loss of power, which takes the cache along. A full disk takes a name
for a file that it has; one that takes no mark at all (it is read-only, say) has to be mended before
a node can run on it.
"""

import logging
from contextlib import suppress
from itertools import pairwise
from typing import Final

from nodes.ids import Offset
from nodes.storage.disk import Disk, File

MARK: Final = "sync-failed"
COPY_BYTES: Final = 1 << 20

log = logging.getLogger("nodes.log")


def leave_mark(disk: Disk, directory: str) -> None:
    """The log in `directory` has failed."""
    try:
        disk.open(_mark(directory), create=True).close()
    except OSError:
        with suppress(OSError, ValueError):  # it has no index, either
            index = max(name for name in disk.listdir(directory) if name.endswith(".timeindex"))
            disk.rename(f"{directory}/{index}", _mark(directory))  # it is made again


def is_marked(disk: Disk, directory: str) -> bool:
    """Whether an earlier process failed, and nobody has written the log again since."""
    return disk.exists(_mark(directory))


def remove_mark(disk: Disk, directory: str) -> None:
    """Everything of the log is on the disk; without a mark nothing happens. Should a loss of power
    bring it back, the files are written once more."""
    if is_marked(disk, directory):
        disk.unlink(_mark(directory))


def write_again(disk: Disk, directory: str, recovery_point: Offset) -> bool:
    """Of a marked log write the segments that were not flushed whole, by the recovery point, into
    new files, and leave their indexes to be made again; whether it is marked. The caller flushes
    the rest, and removes the mark. Durable; blocks. Raises OSError.
    """
    if not is_marked(disk, directory):
        return False
    names = disk.listdir(directory)
    bases = sorted(int(name[:-4]) for name in names if name.endswith(".log"))
    flushed = {base for base, following in pairwise(bases) if following <= recovery_point}
    for base in bases:
        if base in flushed:
            continue
        stem = f"{base:020}"
        log.warning("%s/%s.log: a sync had failed, so it is written again", directory, stem)
        for name in (f"{stem}.index", f"{stem}.timeindex"):
            if name in names:
                disk.unlink(f"{directory}/{name}")
        _copy(disk, f"{directory}/{stem}.log")
    disk.sync_dir(directory)
    return True


def _copy(disk: Disk, path: str) -> None:
    temporary = path + ".tmp"
    if disk.exists(temporary):
        disk.unlink(temporary)  # of a process that died
    source, copy = disk.open(path), disk.open(temporary, create=True)
    try:
        _append_all(source, copy)
        copy.sync()
    finally:
        source.close()
        copy.close()
    disk.rename(temporary, path)


def _append_all(source: File, copy: File) -> None:
    for position in range(0, source.size(), COPY_BYTES):
        copy.append(source.pread(position, COPY_BYTES))


def _mark(directory: str) -> str:
    return f"{directory}/{MARK}"
