"""The disk of a simulated host, as the broker sees it and as faults break it.

`nodes.storage.memory` says what survives a kill and a power loss; this module adds time and
faults. A sync takes a while, and then keeps what the file held when the sync began. A program that
syncs without awaiting, or writes to a frozen disk, blocks in the middle of an event. The write
itself counts at once: chance decides anyway which pages reach a disk that loses power.

A mount belongs to one incarnation; the mount of a dead incarnation raises HostDead.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.simulation.world.loop import HostLoop
from harness.simulation.world.world import MS, NS, Call, World
from nodes.storage.disk import File, Space, replace_file
from nodes.storage.memory import CAPACITY_BYTES, MemoryDisk, MemoryFile

FROZEN: Final = "the disk is frozen"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSettings:
    """The speed of a healthy disk."""

    sync_ns: tuple[int, int] = (200_000, 2_000_000)
    """The shortest and the longest sync; the duration is drawn evenly."""
    bytes_per_s: int = 200_000_000
    """The write speed of unsynced bytes during a sync."""


@dataclass(slots=True, kw_only=True)
class _Sync:
    """A sync in progress. A killed program no longer waits for it, but the disk completes it."""

    began_ns: int
    target: MemoryFile | str
    finish: Callable[[], None]
    waiter: "tuple[HostLoop, asyncio.Future[None]] | None"
    timer: Call | None = None


class DiskObserver:
    """Is called for each change of a disk. This base class does nothing."""

    def written(self, path: str) -> None:
        """A program appended to the file or truncated it."""

    def renamed(self, source: str, target: str) -> None:
        """A program renamed a file or a directory."""

    def ended(self) -> None:
        """The program that mounted the disk is gone."""

    def power_lost(self) -> None:
        """The power failed: unsynced data may be lost."""


class _Outside:
    """A context in which the invariants read; they enter it for each event."""

    entered = False

    def __enter__(self) -> None:
        self.entered = True

    def __exit__(self, *_: object) -> None:
        self.entered = False


class SimDisk:
    """See the module. A disk survives the incarnations of its host."""

    def __init__(self, world: World, name: str, settings: DiskSettings | None = None) -> None:
        self.content = MemoryDisk()
        self.disk_problem = ""
        """What is wrong with the disk until `repair`; empty for a healthy disk."""
        self.syncs = 0
        self.observer = DiskObserver()
        self._world = world
        self._settings = settings or DiskSettings()
        self._rng = world.stream("disk", name)
        self._frozen = False
        self._full = False
        self._errno = 0
        self._drops_after: int | None = None
        self._outside = _Outside()
        self.failed_sync_bytes: int | None = None
        """How many bytes the failed sync had to write; None until a sync failed after
        `fail_next_sync`."""
        self._limit: tuple[int, int] | None = None
        self._mount: Mount | None = None
        self._in_flight: dict[int, _Sync] = {}

    def mount(self, loop: HostLoop) -> "Mount":
        """Return the disk as an incarnation sees it."""
        self._mount = Mount(self, loop)
        return self._mount

    # -- called by the host

    def forget(self, loop: HostLoop) -> None:
        """Forget the dead program; the disk completes its syncs."""
        for sync in self._in_flight.values():
            if sync.waiter is not None and sync.waiter[0] is loop:
                sync.waiter = None
        self.observer.ended()

    def lose_power(self) -> None:
        """Drop unsynced data, except for a random part."""
        for sync in self._in_flight.values():
            if sync.timer is not None:
                sync.timer.cancel()
        self._in_flight.clear()
        self.content.crash(self._rng)
        self.observer.power_lost()

    # -- called by the invariants

    def read_from_outside(self) -> "_Outside":
        """Let the invariants read files of the program, which may be dead; errors of the disk are
        for the program only."""
        return self._outside

    # -- faults

    def freeze(self) -> None:
        """Block all writes, and let no sync return, until `thaw`."""
        self._frozen = True

    def thaw(self) -> None:
        """Undo `freeze`."""
        if self._frozen:
            self._frozen = False
            for number, sync in self._in_flight.items():
                if sync.timer is None:
                    sync.timer = self._world.after(self.sync_ns(0), self._synced, number)
            if self._mount is not None:
                self._mount.loop.host.release(FROZEN)

    def limit(self, *, bytes_per_s: int, operations_per_s: int) -> None:
        """Limit the write speed; 0 means no limit."""
        self._limit = bytes_per_s, operations_per_s

    def unlimit(self) -> None:
        """Undo `limit`."""
        self._limit = None

    @property
    def limited(self) -> bool:
        """Whether the write speed is limited."""
        return self._limit is not None

    def fill(self) -> int:
        """Use up all free space; return how much that was."""
        free = self.free_bytes()
        self._full = True
        return free

    def drain(self) -> None:
        """Undo `fill`."""
        self._full = False

    def free_bytes(self) -> int:
        """Return the free space."""
        return 0 if self._full else self.content.space().usable

    def set_read_only(self) -> None:
        """Write everything to the disk, then refuse writes (EROFS)."""
        self.content.sync_all()
        self._errno, self.disk_problem = errno.EROFS, "it is read-only"

    def fail(self) -> None:
        """Write everything to the disk, then fail all operations (EIO)."""
        self.content.sync_all()
        self._errno, self.disk_problem = errno.EIO, "it fails"

    def repair(self) -> None:
        """Undo `set_read_only` and `fail`."""
        self._errno, self.disk_problem = 0, ""

    def fail_next_sync(self, *, after: int = 0) -> None:
        """Fail a sync of a file (EIO), and mark the pages that it had to write as clean.

        Programs can read those pages, but a power loss loses them, whatever is synced later. The
        next sync with unsynced bytes fails, or a later one: `after` such syncs succeed first.
        """
        self._drops_after, self.failed_sync_bytes = after, None

    def stop_sync_failures(self) -> None:
        """Cancel a pending sync failure, and forget a past one."""
        self._drops_after = self.failed_sync_bytes = None

    @property
    def sync_failure_pending(self) -> bool:
        """Whether `fail_next_sync` has yet to fail a sync."""
        return self._drops_after is not None

    @property
    def frozen(self) -> bool:
        """Whether writes block."""
        return self._frozen

    @property
    def full(self) -> bool:
        """Whether the disk has no free space."""
        return self._full

    @property
    def errno(self) -> int:
        """The errno of all writes; 0 when they succeed."""
        return self._errno

    # -- called by mounts

    def reading(self, loop: HostLoop) -> None:
        """Check a read. Raises OSError."""
        if not self._outside.entered:
            loop.check()
            if self._errno == errno.EIO:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    def writing(self, loop: HostLoop, size: int = 0) -> None:
        """Check a write or a change of a name. Raises OSError."""
        if self._errno:
            raise OSError(self._errno, os.strerror(self._errno))
        if self._full and size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._frozen:
            loop.host.hold(FROZEN)

    def sync_ns(self, size: int) -> int:
        """Return the duration of a sync of this size that begins now."""
        took = self._rng.randint(*self._settings.sync_ns) + size * NS // self._settings.bytes_per_s
        if self._limit is not None:
            bytes_per_s, operations_per_s = self._limit
            took += size * NS // bytes_per_s if bytes_per_s else 0
            took += NS // operations_per_s if operations_per_s else 0
        return took

    def sync_blocking(self, loop: HostLoop, target: MemoryFile | str) -> None:
        """Sync while the program blocks."""
        self.writing(loop)
        self.syncs += 1
        loop.host.block_for(self.sync_ns(self.content.unsynced_bytes(target)))
        if self._dropped(target):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.content.begin_sync(target)()

    def sync_later(self, loop: HostLoop, target: MemoryFile | str) -> "asyncio.Future[None]":
        """Start a sync off the program's loop; the future is done when the sync is."""
        self.syncs += 1
        number = self._world.next_number()
        done = loop.create_future()
        sync = _Sync(
            began_ns=self._world.now_ns,
            target=target,
            finish=self.content.begin_sync(target),
            waiter=(loop, done),
        )
        self._in_flight[number] = sync
        took = self.sync_ns(self.content.unsynced_bytes(target))
        sync.timer = self._world.after(took, self._synced, number)
        return done

    def _synced(self, number: int) -> None:
        sync = self._in_flight[number]
        sync.timer = None
        if self._frozen:
            return
        del self._in_flight[number]
        code = self._errno
        if not code and sync.waiter is not None and self._dropped(sync.target):
            code = errno.EIO
        error = OSError(code, os.strerror(code)) if code else None
        if error is None:
            sync.finish()
        if sync.waiter is not None:
            loop, done = sync.waiter
            loop.delivered_at_ns(self._world.now_ns, _complete, done, error)

    def _dropped(self, target: MemoryFile | str) -> bool:
        """Whether this sync, which is about to end, fails."""
        if self._drops_after is None or isinstance(target, str) or not target.unsynced_bytes():
            return False
        if self._drops_after:
            self._drops_after -= 1
            return False
        self._drops_after = None
        self.failed_sync_bytes = target.drop_unsynced()
        return True

    def oldest_sync_age_ms(self, loop: HostLoop, now_ms: float) -> float:
        """Return the age of the program's oldest sync in progress."""
        for sync in self._in_flight.values():
            if sync.waiter is not None and sync.waiter[0] is loop:
                return max(0.0, now_ms - sync.began_ns / MS)
        return 0.0


def _complete(done: "asyncio.Future[None]", error: OSError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


class SimFile:
    """An open file of one incarnation."""

    def __init__(self, mount: "Mount", path: str, file: MemoryFile) -> None:
        self._mount = mount
        self._path = path
        self.file = file

    def size(self) -> int:
        return self.file.size()

    def pread(self, offset: int, length: int) -> bytes:
        self._mount.reading()
        return self.file.pread(offset, length)

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self._mount.writing(len(data))
        self.file.append(data)
        self._mount.written(self._path)

    def truncate(self, size: int) -> None:
        if size < self.file.size():
            self._mount.writing()
            self.file.truncate(size)
            self._mount.written(self._path)

    def rewrite(self, start: int = 0) -> None:
        self._mount.writing()
        self.file.rewrite(start)

    def sync(self) -> None:
        self._mount.sync_blocking(self.file)

    def close(self) -> None:
        """Do nothing: no file is kept open."""


class Mount:
    """`nodes.storage.disk.Disk` for one incarnation."""

    def __init__(self, disk: SimDisk, loop: HostLoop) -> None:
        self.loop = loop
        self._disk = disk
        self._content = disk.content

    def reading(self) -> None:
        """See SimDisk. Raises HostDead if the program is dead."""
        self._disk.reading(self.loop)

    def writing(self, size: int = 0) -> None:
        """See SimDisk. Raises HostDead if the program is dead."""
        self.loop.check()
        self._disk.writing(self.loop, size)

    def written(self, path: str) -> None:
        """Report that a program appended to the file or truncated it."""
        self._disk.observer.written(path)

    def sync_blocking(self, target: MemoryFile | str) -> None:
        """See SimDisk. Raises HostDead if the program is dead."""
        self.loop.check()
        self._disk.sync_blocking(self.loop, target)

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.reading()
        if create and not self._content.exists(path):
            self.writing(1)
        return SimFile(self, path, self._content.open(path, create=create))

    def exists(self, path: str) -> bool:
        self.reading()
        return self._content.exists(path)

    def listdir(self, path: str) -> list[str]:
        self.reading()
        return self._content.listdir(path)

    def makedirs(self, path: str) -> None:
        self.writing(1)
        self._content.makedirs(path)

    def rename(self, source: str, target: str) -> None:
        self.writing()
        self._content.rename(source, target)
        self._disk.observer.renamed(source, target)

    def unlink(self, path: str) -> None:
        self.writing()
        self._content.unlink(path)

    def remove_dir(self, path: str) -> None:
        self.writing()
        self._content.remove_dir(path)

    def read(self, path: str) -> bytes:
        self.reading()
        return self._content.read(path)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        replace_file(self, path, data, durable=durable)

    def sync_dir(self, path: str) -> None:
        self.sync_blocking(path)

    async def sync(self, target: File | str) -> None:
        self.loop.check()
        if isinstance(target, str):
            await self._disk.sync_later(self.loop, target)
        else:
            assert isinstance(target, SimFile), "a file of another disk"
            await self._disk.sync_later(self.loop, target.file)

    def space(self) -> Space:
        self.reading()
        return Space(CAPACITY_BYTES, self._disk.free_bytes())

    def oldest_sync_age_ms(self, now_ms: float) -> float:
        return self._disk.oldest_sync_age_ms(self.loop, now_ms)
