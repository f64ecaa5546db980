"""A disk in memory that can lose power: a test aid, shipped with the broker.

Every file has a cached content (the page cache) and a durable content; every directory has a cached
and a durable table of names. `crash()` keeps only synced data. With a `random.Random` it also keeps
a random part of the rest, like a kernel that had begun to write back: any pages of a file, and any
changes of a directory's names, each completely or not at all. That is harsher than journalling file
systems, which keep name changes in order. A sync may also fail as in real kernels
(`drop_unsynced`). The simulator adds delays, errors, full disks and deaths during an operation.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nodes.storage.disk import File, Space, parent, replace_file

PAGE_BYTES = 4096

CAPACITY_BYTES = 1 << 30
"""The size that `space` reports; only the simulator enforces it."""


class _Inode:
    """One file's content, independent of its names."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.same = 0
        """How many bytes from the beginning are surely equal in both contents."""
        self.clean = 0
        """How many bytes the kernel considers clean; dropped bytes lie between `same` and here."""
        self._begun = self._ended = 0

    def set(self, content: bytes | bytearray) -> None:
        """Set both contents."""
        self.cached, self.durable = bytearray(content), bytearray(content)
        self.same = self.clean = len(content)

    def drop_unsynced(self) -> int:
        """See `MemoryFile.drop_unsynced`."""
        dropped = len(self.cached) - self.clean
        self.clean = len(self.cached)
        return dropped

    def written_back(self) -> bytes:
        """The disk's content after a kernel writes everything back now: it does not write dropped
        bytes; dropped bytes beyond the durable end become zeros."""
        old = bytes(self.durable[self.same : self.clean]).ljust(self.clean - self.same, b"\0")
        return bytes(self.cached[: self.same]) + old + bytes(self.cached[self.clean :])

    def begin_sync(self) -> Callable[[], None]:
        size = len(self.cached)
        self._begun += 1
        number = self._begun

        def end() -> None:
            if number > self._ended:  # otherwise a later sync has written newer content already
                self._ended = number
                whole = self.same == self.clean
                start = min(self.clean, size)
                del self.durable[start:]
                self.durable += bytes(start - len(self.durable))  # zeros for dropped bytes
                self.durable += self.cached[start:size]
                self.clean = min(size, len(self.cached))
                if whole:
                    self.same = self.clean

        return end


class _Change(NamedTuple):
    """One change of a directory's names: remove `removed`, then let `added` name `node`."""

    removed: str | None
    added: str | None
    node: "_Inode | _Directory | None"

    def apply(self, names: "dict[str, _Inode | _Directory]") -> None:
        if self.removed is not None:
            names.pop(self.removed, None)
        if self.added is not None:
            assert self.node is not None
            names[self.added] = self.node


class _Directory:
    """A table of names, cached and durable, and the changes between them."""

    def __init__(self) -> None:
        self.cached: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}
        self.unsynced: list[_Change] = []
        self._synced = 0
        """How many changes were synced before these."""

    def change(self, change: _Change) -> None:
        change.apply(self.cached)
        self.unsynced.append(change)

    def begin_sync(self) -> Callable[[], None]:
        reached = self._synced + len(self.unsynced)

        def end() -> None:
            count = max(0, reached - self._synced)
            for change in self.unsynced[:count]:
                change.apply(self.durable)
            del self.unsynced[:count]
            self._synced += count

        return end


class MemoryFile:
    """An open file of a MemoryDisk."""

    def __init__(self, inode: _Inode) -> None:
        self._inode = inode

    def size(self) -> int:
        return len(self._inode.cached)

    def pread(self, offset: int, length: int) -> bytes:
        return bytes(self._inode.cached[offset : offset + length])

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self._inode.cached += data

    def truncate(self, size: int) -> None:
        del self._inode.cached[size:]
        self._inode.same = min(self._inode.same, size)
        self._inode.clean = min(self._inode.clean, size)

    def rewrite(self, start: int = 0) -> None:
        if start <= self._inode.same:  # otherwise some dropped bytes remain unwritten
            self._inode.clean = self._inode.same

    def sync(self) -> None:
        self.begin_sync()()

    def begin_sync(self) -> Callable[[], None]:
        """See `MemoryDisk.begin_sync`."""
        return self._inode.begin_sync()

    def unsynced_bytes(self) -> int:
        """How many bytes a sync has to write, at most."""
        return len(self._inode.cached) - self._inode.clean

    def drop_unsynced(self) -> int:
        """Let a sync fail as in real kernels ("fsyncgate"): unsynced bytes count as clean, can be
        read, and are never written. Return how many bytes these are.
        """
        return self._inode.drop_unsynced()

    def close(self) -> None:
        pass


class MemoryDisk:
    """Files whose cached and durable contents are kept separately."""

    def __init__(self) -> None:
        self._root = _Directory()

    def crash(self, rng: random.Random | None = None) -> None:
        """Lose power: lose all unsynced data, or with `rng` a random part of it."""
        directories = [self._root]
        while directories:
            directory = directories.pop()
            if rng is not None:
                _write_back_names(directory, rng)
            directory.cached = dict(directory.durable)
            directory.unsynced.clear()
            for _, node in sorted(directory.durable.items()):
                if isinstance(node, _Directory):
                    directories.append(node)
                    continue
                node.set(node.durable if rng is None else _write_back(node, rng))

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        directory, name = self._place(path)
        if name not in directory.cached:
            if not create:
                raise FileNotFoundError(path)
            directory.change(_Change(None, name, _Inode()))
        return MemoryFile(self._inode(path))

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def listdir(self, path: str) -> list[str]:
        return sorted(self._directory(path).cached)

    def makedirs(self, path: str) -> None:
        if path and self._find(path) is None:
            self.makedirs(parent(path))
            directory, name = self._place(path)
            directory.change(_Change(None, name, _Directory()))

    def rename(self, source: str, target: str) -> None:
        assert parent(source) == parent(target), "moves between directories are not modelled"
        node = self._find(source)
        if node is None:
            raise FileNotFoundError(source)
        replaced = self._find(target)
        if isinstance(replaced, _Directory) or (isinstance(node, _Directory) and replaced):
            raise FileExistsError(target)
        directory, name = self._place(source)
        directory.change(_Change(name, self._place(target)[1], node))

    def unlink(self, path: str) -> None:
        self._inode(path)
        directory, name = self._place(path)
        directory.change(_Change(name, None, None))

    def remove_dir(self, path: str) -> None:
        if self._directory(path).cached:
            raise OSError(f"{path} is not empty")
        directory, name = self._place(path)
        directory.change(_Change(name, None, None))

    def read(self, path: str) -> bytes:
        return bytes(self._inode(path).cached)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        replace_file(self, path, data, durable=durable)

    def sync_dir(self, path: str) -> None:
        self._directory(path).begin_sync()()

    def begin_sync(self, target: MemoryFile | str) -> Callable[[], None]:
        """Begin a sync; call the returned function when it ends. That makes the content of the
        beginning durable, unless a sync that began later has ended already.
        """
        if isinstance(target, str):
            return self._directory(target).begin_sync()
        return target.begin_sync()

    def unsynced_bytes(self, target: MemoryFile | str) -> int:
        """How many bytes a sync has to write, at most; names do not count."""
        return 0 if isinstance(target, str) else target.unsynced_bytes()

    def files(self) -> Iterator[tuple[str, int]]:
        """Path and size of every file, sorted by path."""
        for path, node in self._walk("", self._root):
            if isinstance(node, _Inode):
                yield path, len(node.cached)

    def sync_all(self) -> None:
        """Make everything durable."""
        for _, node in self._walk("", self._root):
            node.begin_sync()()

    def _walk(
        self, path: str, directory: _Directory
    ) -> "Iterator[tuple[str, _Inode | _Directory]]":
        yield path, directory
        for name, node in sorted(directory.cached.items()):
            below = f"{path}/{name}" if path else name
            if isinstance(node, _Directory):
                yield from self._walk(below, node)
            else:
                yield below, node

    async def sync(self, target: File | str) -> None:
        await asyncio.sleep(0)  # other tasks run before the sync takes effect, as with a real disk
        if isinstance(target, str):
            self.sync_dir(target)
        else:
            target.sync()

    def space(self) -> Space:
        held = sum(size for _, size in self.files())
        return Space(CAPACITY_BYTES, max(0, CAPACITY_BYTES - held))

    def oldest_sync_age_ms(self, now_ms: float) -> float:
        return 0.0

    def corrupt(self, path: str, position: int) -> None:
        """Flip one bit of the byte at `position`, in the cache and on the disk."""
        inode = self._inode(path)
        inode.cached[position] ^= 1
        inode.set(inode.cached)

    def _find(self, path: str) -> _Inode | _Directory | None:
        node: _Inode | _Directory | None = self._root
        for name in path.split("/") if path else ():
            if not isinstance(node, _Directory):
                return None
            node = node.cached.get(name)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(path)
        return node

    def _inode(self, path: str) -> _Inode:
        node = self._find(path)
        if not isinstance(node, _Inode):
            raise FileNotFoundError(path)
        return node

    def _place(self, path: str) -> tuple[_Directory, str]:
        """The directory of a path, which must exist, and the path's last name."""
        return self._directory(parent(path)), path.rpartition("/")[2]


def _write_back_names(directory: _Directory, rng: random.Random) -> None:
    """Make some changes durable: the first few, or a random selection."""
    changes = directory.unsynced
    if rng.random() < 0.5:
        kept = changes[: rng.randint(0, len(changes))]
    else:
        kept = [change for change in changes if rng.random() < 0.5]
    for change in kept:
        change.apply(directory.durable)


def _write_back(inode: _Inode, rng: random.Random) -> bytes:
    """The content after a power loss during write-back: each page is new or as last synced.

    The size is the old one, the new one, or between. Truncated bytes may be back, but never as
    zeros, except in the page in which the truncation ended.
    """
    newest = inode.written_back()
    low, high = sorted((len(inode.durable), len(newest)))
    size = rng.choice((low, high, rng.randint(low, high)))
    kept = bytearray()
    for start in range(0, size, PAGE_BYTES):
        stop = min(start + PAGE_BYTES, size)
        new = rng.random() < 0.7 and start < len(newest)
        source = newest if new else inode.durable
        kept += bytes(source[start:stop]).ljust(stop - start, b"\0")
    return bytes(kept)
