"""The disk seam over real files.

Writes go to the page cache on the caller's thread (a frozen file system then freezes the node, as
a pause would, and the controller fences it); `sync` runs in the event loop's executor, and its age
is measured, so that a hanging disk is noticed. Left to others: deciding what a hang means.
"""

import asyncio
import os
from pathlib import Path

from nodes.storage.disk import File, replace_file

_MODE = 0o644


class LocalFile:
    """One real file behind a raw descriptor; `size` is tracked, so that it costs no system call."""

    def __init__(self, path: Path, *, create: bool) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self._fd = os.open(path, flags, _MODE)
        self._size = os.fstat(self._fd).st_size
        self._syncs_in_flight = 0
        self._closed = False

    def size(self) -> int:
        return self._size

    def pread(self, offset: int, length: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        if len(data) == length or offset + len(data) >= self._size:
            return data
        parts = [data]  # a read is cut short by a signal, or at 2 GiB
        got = len(data)
        while got < length:
            data = os.pread(self._fd, length - got, offset + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def append(self, data: bytes | bytearray | memoryview) -> None:
        try:
            written = os.write(self._fd, data)
            if written < len(data):
                view = memoryview(data)
                while written < len(data):
                    written += os.write(self._fd, view[written:])
        except OSError:
            self._size = os.fstat(self._fd).st_size
            raise
        self._size += written

    def truncate(self, size: int) -> None:
        if size < self._size:
            os.ftruncate(self._fd, size)
            self._size = size

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        # A descriptor closed under a running fsync could be given to another file meanwhile.
        if not self._closed:
            self._closed = True
            if not self._syncs_in_flight:
                os.close(self._fd)

    async def sync_in_executor(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sync off the loop; the descriptor stays open until it is done."""
        if self._closed:
            raise ValueError("sync of a closed file")
        self._syncs_in_flight += 1
        running = loop.run_in_executor(None, os.fsync, self._fd)
        running.add_done_callback(self._sync_done)
        await asyncio.shield(running)  # a cancelled waiter must not let the descriptor go early

    def _sync_done(self, done: asyncio.Future[None]) -> None:
        self._syncs_in_flight -= 1
        if self._closed and not self._syncs_in_flight:
            os.close(self._fd)
        if not done.cancelled():
            done.exception()  # seen: the waiter gets it too, unless it was cancelled


class LocalDisk:
    """The files under `root`, which must exist."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._syncs: dict[int, float] = {}
        """Start, in loop milliseconds, of each sync in flight; oldest first."""
        self._next_sync = 0

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        return LocalFile(self.root / path, create=create)

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def listdir(self, path: str) -> list[str]:
        return sorted(entry.name for entry in (self.root / path).iterdir())

    def makedirs(self, path: str) -> None:
        (self.root / path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        (self.root / source).replace(self.root / target)

    def unlink(self, path: str) -> None:
        (self.root / path).unlink()

    def remove_dir(self, path: str) -> None:
        (self.root / path).rmdir()

    def size(self, path: str) -> int:
        return (self.root / path).stat().st_size

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

    def oldest_sync_age_ms(self, now_ms: float) -> float:
        return max(0.0, now_ms - next(iter(self._syncs.values()))) if self._syncs else 0.0


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
