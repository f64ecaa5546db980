"""A disk in memory that loses power: a test aid, shipped with the broker.

Every file has what the page cache holds and what is durable, and so has the table of names.
`crash()` keeps only what was synced; with a `random.Random` it keeps, page by page, a random part
of the rest as well, as a kernel that had begun to write back would have. Directories themselves
are durable at once. Left to others: delays, errors, and full disks.
"""

import asyncio
import random

from nodes.storage.disk import File

PAGE_BYTES = 4096


class _Inode:
    """One file's content, whatever its names."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = b""


class MemoryFile:
    """An open file of a MemoryDisk."""

    def __init__(self, disk: "MemoryDisk", inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode

    def size(self) -> int:
        return len(self._inode.cached)

    def pread(self, offset: int, length: int) -> bytes:
        return bytes(self._inode.cached[offset : offset + length])

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self._disk.before_write()
        self._inode.cached += data

    def truncate(self, size: int) -> None:
        self._disk.before_write()
        del self._inode.cached[size:]

    def sync(self) -> None:
        self._disk.before_write()
        self._inode.durable = bytes(self._inode.cached)

    def close(self) -> None:
        pass


class PowerLost(Exception):
    """The disk lost power at the write that `crash_after_writes` named."""


class MemoryDisk:
    """Files that remember apart what is cached and what is durable."""

    def __init__(self) -> None:
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._directories = {""}
        self.crash_after_writes: int | None = None
        """After so many more writes, truncations, syncs and name changes, raise PowerLost."""

    def before_write(self) -> None:
        """Count one change; raise PowerLost when its number has come, and from then on."""
        if self.crash_after_writes is not None:
            if self.crash_after_writes <= 0:
                raise PowerLost
            self.crash_after_writes -= 1

    def crash(self, rng: random.Random | None = None) -> None:
        """Lose power: forget what was not synced, or, given `rng`, a random part of it."""
        self.crash_after_writes = None
        survivors = dict(self._durable_names)
        if rng is not None:
            for name in sorted(self._names.keys() | survivors.keys()):
                if rng.random() < 0.5:
                    survivors.pop(name, None)
                    if name in self._names:
                        survivors[name] = self._names[name]
        for name in sorted(survivors):
            inode = survivors[name]
            kept = inode.durable if rng is None else _written_back(inode, rng)
            inode.durable = kept
            inode.cached = bytearray(kept)
        self._durable_names = survivors
        self._names = dict(survivors)

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if path not in self._names:
            if not create:
                raise FileNotFoundError(path)
            self._require_directory(path)
            self.before_write()
            self._names[path] = _Inode()
        return MemoryFile(self, self._names[path])

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def listdir(self, path: str) -> list[str]:
        if path not in self._directories:
            raise FileNotFoundError(path)
        entries = [*self._names, *(self._directories - {""})]
        return sorted(_base(name) for name in entries if _parent(name) == path)

    def makedirs(self, path: str) -> None:
        while path:
            self._directories.add(path)
            path = _parent(path)

    def rename(self, source: str, target: str) -> None:
        self.before_write()
        self._names[target] = self._names.pop(source)

    def unlink(self, path: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(path)
        self.before_write()
        del self._names[path]

    def read(self, path: str) -> bytes:
        return bytes(self._inode(path).cached)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._require_directory(path)
        self.before_write()
        inode = _Inode()
        inode.cached += data
        self._names[path] = inode
        if durable:
            inode.durable = data
            self._durable_names[path] = inode

    def sync_dir(self, path: str) -> None:
        self.before_write()
        for name in [name for name in self._durable_names if _parent(name) == path]:
            del self._durable_names[name]
        for name, inode in self._names.items():
            if _parent(name) == path:
                self._durable_names[name] = inode

    async def sync(self, target: File | str) -> None:
        await asyncio.sleep(0)  # others run before the sync takes effect, as with a real disk
        if isinstance(target, str):
            self.sync_dir(target)
        else:
            target.sync()

    def oldest_sync_age_ms(self, now_ms: float) -> float:
        return 0.0

    def corrupt(self, path: str, position: int) -> None:
        """Flip one bit of the byte at `position`, in the cache and on the disk."""
        inode = self._inode(path)
        inode.cached[position] ^= 1
        inode.durable = bytes(inode.cached)

    def _inode(self, path: str) -> _Inode:
        if path not in self._names:
            raise FileNotFoundError(path)
        return self._names[path]

    def _require_directory(self, path: str) -> None:
        if _parent(path) not in self._directories:
            raise FileNotFoundError(_parent(path))


def _written_back(inode: _Inode, rng: random.Random) -> bytes:
    """The content after a loss of power during write-back: each page new, or as last synced."""
    low, high = sorted((len(inode.durable), len(inode.cached)))
    size = rng.choice((low, high, rng.randint(low, high)))
    kept = bytearray()
    for start in range(0, size, PAGE_BYTES):
        stop = min(start + PAGE_BYTES, size)
        source = inode.cached if rng.random() < 0.7 else inode.durable
        kept += bytes(source[start:stop]).ljust(stop - start, b"\0")
    return bytes(kept)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _base(path: str) -> str:
    return path.rpartition("/")[2]
