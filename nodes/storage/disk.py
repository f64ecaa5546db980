"""The storage seam: every file the broker touches goes through these two protocols.

For: the log, the quorum state and the checkpoints, which must behave the same over real files
(`nodes.storage.local`), over a disk held in memory that forgets what was not synced
(`nodes.storage.memory`), and over a simulator's disk.

Guarantees asked of an implementation: what `append` and `truncate` did is seen by every later
`pread` at once, and survives the death of the process; it survives a loss of power only once
`sync` returned, and a created, renamed or removed name only once its directory was synced. One
writer per file. Paths are relative to the disk's root (a node's log directory), with "/" between
parts; "" is the root itself.

Left to others: what a file means, and in which order things become durable.
"""

from typing import NamedTuple, Protocol


class Space(NamedTuple):
    """The room of the file system that a disk's root is on, in bytes."""

    total: int
    usable: int
    """What is left for this process."""


class File(Protocol):
    """An open file: read anywhere, write at the end. Errors are the operating system's OSError."""

    def size(self) -> int:
        """Bytes in the file now."""

    def pread(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from byte `offset`; fewer only where the file ends."""

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data` at the end; after an error any prefix of it may be there."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; never extends."""

    def rewrite(self, start: int = 0) -> None:
        """Write what is there from byte `start` on over itself, for the next sync to make durable.

        A kernel that fails to write pages back says so once, and takes them for clean: they are
        read as if they were on the disk, and syncs that come later pass them over ("fsyncgate").
        """

    def sync(self) -> None:
        """Make the content durable; blocks."""

    def close(self) -> None:
        """Release the file, without syncing it; a sync in flight ends first. Idempotent."""


class Disk(Protocol):
    """The files under one root directory. Errors are the operating system's OSError."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file; a missing one raises FileNotFoundError, or is made when `create` is set."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name exists."""

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""

    def makedirs(self, path: str) -> None:
        """Make a directory and its missing parents; fine when it exists. Not durable by itself."""

    def rename(self, source: str, target: str) -> None:
        """Rename within one directory; durable after `sync_dir`.

        A file replaces the file `target`; a directory takes a name that is free. Files that are
        open below a renamed directory must be closed first.
        """

    def unlink(self, path: str) -> None:
        """Remove a file; durable after `sync_dir`. A missing one raises FileNotFoundError."""

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; durable after `sync_dir` of its parent."""

    def read(self, path: str) -> bytes:
        """The whole content of a file."""

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replace a file's content as a whole: readers see the old or the new, never a mixture.

        With `durable` (blocks) that holds after a loss of power too, and the new content is on
        disk on return. Without it a loss of power may leave either, or an empty file: only for
        what can be rebuilt.
        """

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable; blocks."""

    async def sync(self, target: File | str) -> None:
        """Sync a file, or the directory of that path, without stopping the event loop."""

    def space(self) -> Space:
        """How large the file system is, and what is left of it."""

    def oldest_sync_age_ms(self, now_ms: float) -> float:
        """How long the oldest sync in flight has been running; 0 when none is.

        `now_ms` is the loop's monotonic time in milliseconds. A broker whose syncs hang must lose
        its leaderships although its processor is well (KAFKA-8733): it stops its heartbeats.
        """


def parent(path: str) -> str:
    """The directory that holds `path`."""
    return path.rpartition("/")[0]


def replace_file(disk: Disk, path: str, data: bytes, *, durable: bool) -> None:
    """What `write_atomic` does, in the operations of `disk`: a new file beside, then its name.

    The name moves only after the content is on disk, when `durable`; and is itself on disk last.
    """
    temporary = path + ".tmp"
    if disk.exists(temporary):
        disk.unlink(temporary)  # of a writer that died
    file = disk.open(temporary, create=True)
    try:
        file.append(data)
        if durable:
            file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    while durable and path:
        path = parent(path)
        disk.sync_dir(path)  # up to the root: a directory's own name may be as new as the file
