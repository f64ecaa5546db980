"""The disk interface with real files.

Writes go to the page cache on the caller's thread: a frozen file system freezes the node, as a
pause would, and the controller fences it. `sync` runs in the event loop's executor. Its age is
measured, so that a hanging disk is noticed; the caller decides what a hang means.

The kernel frees the pages and blocks of a removed file when its last descriptor is closed: for a
gigabyte that takes a tenth to a quarter of a second. So a thread closes a last descriptor of each
large file that is removed or replaced. Its name is gone at once, its space a moment later.

If many files are open, the least used files without unsynced writes are closed, and opened again
when needed. So a node can have far more files than descriptors. A file with unsynced writes keeps
its descriptor, because another descriptor would not report a failed write-back.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nodes.storage.disk import File, Space, replace_file

_MODE = 0o644
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
IDLE_DESCRIPTORS = 512
"""About how many files without unsynced writes stay open."""
LARGE_BYTES = 1 << 20
"""Files of this size and more are freed by the thread: a megabyte takes some 200 us."""
_COPY_BYTES = 1 << 20
_LOOKS = 8
"""How many files are examined to close one, when another is opened."""


class _OpenFiles:
    """The open files; closes idle ones beyond a bound (second-chance replacement)."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._open: dict[LocalFile, None] = {}

    def opened(self, file: "LocalFile") -> None:
        """Add a file that has a descriptor now, and close others beyond the bound."""
        self._open[file] = None
        for _ in range(_LOOKS):
            if len(self._open) <= self._bound:
                return
            other = next(iter(self._open))
            del self._open[other]
            if other is file or not other.close_if_idle():
                self._open[other] = (
                    None  # used since the last look, or unsynced: to the end of the queue
                )

    def closed(self, file: "LocalFile") -> None:
        """Remove a file that has no descriptor any more."""
        self._open.pop(file, None)


class LocalFile:
    """One real file; it tracks its size, so that `size` costs no system call."""

    def __init__(self, path: Path, idle: _OpenFiles, *, create: bool) -> None:
        self._path = path
        self._idle = idle
        self._fd = -1
        self._used = False
        self._writes = 0
        self._synced_writes = 0
        self._syncs_in_flight = 0
        self._closed = False
        try:
            self._size = path.stat().st_size
        except FileNotFoundError:
            if not create:
                raise
            self._fd = os.open(path, _FLAGS | os.O_CREAT, _MODE)
            self._size = os.fstat(self._fd).st_size
            idle.opened(self)

    def _descriptor(self) -> int:
        self._used = True
        if self._fd < 0:
            if self._closed:
                raise OSError(errno.EBADF, "Bad file descriptor: it was closed", str(self._path))
            self._fd = os.open(self._path, _FLAGS)
            self._idle.opened(self)
        return self._fd

    def close_if_idle(self) -> bool:
        """Close the descriptor if it was not used since the last call and nothing is unsynced."""
        if self._used or self._syncs_in_flight or self._writes != self._synced_writes:
            self._used = False
            return False
        os.close(self._fd)
        self._fd = -1
        return True

    def size(self) -> int:
        return self._size

    def pread(self, offset: int, length: int) -> bytes:
        fd = self._descriptor()
        data = os.pread(fd, length, offset)
        if len(data) == length or offset + len(data) >= self._size:
            return data
        parts = [data]  # a read is cut short by a signal, or at 2 GiB
        got = len(data)
        while got < length:
            data = os.pread(fd, length - got, offset + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def append(self, data: bytes | bytearray | memoryview) -> None:
        fd = self._descriptor()
        self._writes += 1
        try:
            written = os.write(fd, data)
            if written < len(data):
                view = memoryview(data)
                while written < len(data):
                    written += os.write(fd, view[written:])
        except OSError:
            self._size = os.fstat(fd).st_size
            raise
        self._size += written

    def truncate(self, size: int) -> None:
        if size < self._size:
            fd = self._descriptor()
            self._writes += 1
            os.ftruncate(fd, size)
            self._size = size

    def rewrite(self, start: int = 0) -> None:
        self._descriptor()  # opened first, so that it reports a failed write-back
        self._writes += 1
        in_place = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            position = start
            while data := os.pread(in_place, _COPY_BYTES, position):
                position += os.pwrite(in_place, data, position)
        finally:
            os.close(in_place)

    def sync(self) -> None:
        os.fsync(self._descriptor())
        self._synced_writes = self._writes

    def close(self) -> None:
        # A descriptor closed under a running fsync could be given to another file meanwhile.
        if not self._closed:
            self._closed = True
            if not self._syncs_in_flight:
                self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._idle.closed(self)

    async def sync_in_executor(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sync in the executor; the descriptor stays open until the sync is done."""
        if self._closed:
            raise ValueError("sync of a closed file")
        fd = self._descriptor()
        writes = self._writes
        self._syncs_in_flight += 1
        running = loop.run_in_executor(None, os.fsync, fd)
        running.add_done_callback(lambda done: self._sync_done(done, writes))
        await asyncio.shield(running)  # a cancelled waiter must not close the descriptor early

    def _sync_done(self, done: asyncio.Future[None], writes: int) -> None:
        self._syncs_in_flight -= 1
        if (
            not done.cancelled() and done.exception() is None
        ):  # retrieved here; the waiter gets it too
            self._synced_writes = max(self._synced_writes, writes)
        if self._closed and not self._syncs_in_flight:
            self._close_descriptor()


class LocalDisk:
    """The files under `root`, which must exist."""

    def __init__(self, root: Path, *, idle_descriptors: int = IDLE_DESCRIPTORS) -> None:
        self.root = root
        self._idle = _OpenFiles(idle_descriptors)
        self._syncs: dict[int, float] = {}
        """Start, in loop milliseconds, of each sync in flight; oldest first."""
        self._next_sync = 0

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        return LocalFile(self.root / path, self._idle, create=create)

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def listdir(self, path: str) -> list[str]:
        return sorted(entry.name for entry in (self.root / path).iterdir())

    def makedirs(self, path: str) -> None:
        (self.root / path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        with _freed_by_thread(self.root / target):
            (self.root / source).replace(self.root / target)

    def unlink(self, path: str) -> None:
        with _freed_by_thread(self.root / path):
            (self.root / path).unlink()

    def remove_dir(self, path: str) -> None:
        (self.root / path).rmdir()

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        replace_file(self, path, data, durable=durable)

    def sync_dir(self, path: str) -> None:
        _sync_directory(self.root / path)

    async def sync(self, target: File | str) -> None:
        loop = asyncio.get_running_loop()
        number = self._next_sync
        self._next_sync += 1
        self._syncs[number] = loop.time() * 1000
        try:
            if isinstance(target, str):
                await loop.run_in_executor(None, _sync_directory, self.root / target)
            else:
                assert isinstance(target, LocalFile), "a file of another disk"
                await target.sync_in_executor(loop)
        finally:
            del self._syncs[number]

    def space(self) -> Space:
        found = os.statvfs(self.root)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def oldest_sync_age_ms(self, now_ms: float) -> float:
        return max(0.0, now_ms - next(iter(self._syncs.values()))) if self._syncs else 0.0


_FREEING = ThreadPoolExecutor(max_workers=1, thread_name_prefix="freeing")


@contextlib.contextmanager
def _freed_by_thread(path: Path) -> Iterator[None]:
    """Let a thread free the file of this name, if there is a large one that loses its name in the
    block.
    """
    try:
        large = path.stat().st_size >= LARGE_BYTES and path.is_file()
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if large else -1
    except OSError:  # the block says what is wrong
        fd = -1
    try:
        yield
    finally:
        if fd >= 0:
            _FREEING.submit(os.close, fd)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
