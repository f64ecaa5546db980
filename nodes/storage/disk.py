"""The interface to the disk: the broker accesses every file through these two protocols.

The log, the quorum state and the checkpoints must behave the same with real files
(`nodes.storage.local`), with a disk in memory that loses unsynced data (`nodes.storage.memory`),
and with a simulator's disk.

An implementation guarantees: the effect of `append` and `truncate` is visible to every later
`pread` at once, and survives the death of the process. It survives a power loss only after `sync`
returned; a created, renamed or removed name survives only after its directory was synced. There is
one writer per file. Paths are relative to the disk's root (a node's log directory), with "/"
between parts; "" is the root itself.

The meaning of a file, and the order in which data becomes durable, are decided by the callers.
"""

from typing import NamedTuple, Protocol


class Space(NamedTuple):
    """The size and the free space of the disk's file system, in bytes."""

    total: int
    usable: int
    """The free space for this process."""


class File(Protocol):
    """An open file: read anywhere, write at the end. Errors are the operating system's OSError."""

    def size(self) -> int:
        """Bytes in the file now."""

    def pread(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from byte `offset`; fewer only at the end of the file."""

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data` at the end; after an error, any prefix of it may be in the file."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; never extends."""

    def rewrite(self, start: int = 0) -> None:
        """Write the content from byte `start` over itself, so that the next sync makes it durable.

        A kernel that fails to write pages back reports the error once, and marks the pages as
        clean: they read as if they were on the disk, and later syncs skip them ("fsyncgate").
        """

    def sync(self) -> None:
        """Make the content durable; blocks."""

    def close(self) -> None:
        """Release the file, without syncing it; a sync in flight ends first. Idempotent."""


class Disk(Protocol):
    """The files under one root directory. Errors are the operating system's OSError."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file. If it is missing, create it with `create`, or raise FileNotFoundError."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name exists."""

    def listdir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def makedirs(self, path: str) -> None:
        """Make a directory and its missing parents; it may exist. Not durable by itself."""

    def rename(self, source: str, target: str) -> None:
        """Rename within one directory; durable after `sync_dir`.

        A file replaces the file `target`; a directory needs an unused name. Open files below a
        renamed directory must be closed first.
        """

    def unlink(self, path: str) -> None:
        """Remove a file; durable after `sync_dir`. A missing one raises FileNotFoundError."""

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; durable after `sync_dir` of its parent."""

    def read(self, path: str) -> bytes:
        """The whole content of a file."""

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replace a file's whole content: readers see the old or the new content, never a mixture.

        With `durable` (blocks) that also holds after a power loss, and the new content is on disk
        on return. Without `durable` a power loss may leave either content or an empty file; use it
        only for data that can be rebuilt.
        """

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable; blocks."""

    async def sync(self, target: File | str) -> None:
        """Sync a file, or the directory of that path, without blocking the event loop."""

    def space(self) -> Space:
        """The size and the free space of the file system."""

    def oldest_sync_age_ms(self, now_ms: float) -> float:
        """How long the oldest sync in flight has been running; 0 when none is.

        `now_ms` is the loop's monotonic time in milliseconds. A broker whose syncs hang must lose
        its leaderships although the process still runs (KAFKA-8733): it stops its heartbeats.
        """


def parent(path: str) -> str:
    """The directory that holds `path`."""
    return path.rpartition("/")[0]


def replace_file(disk: Disk, path: str, data: bytes, *, durable: bool) -> None:
    """Implement `write_atomic` by operations of `disk`: write a temporary file, then rename it.

    With `durable` the content is synced before the rename, and the new name after it.
    """
    temporary = path + ".tmp"
    if disk.exists(temporary):
        disk.unlink(temporary)  # left by a writer that died
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
        disk.sync_dir(path)  # up to the root: the directories may be new too
