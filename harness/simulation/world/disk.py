"""The disk of a simulated host: what a broker sees of it, and what faults make of it.

What survives what are the rules of `nodes.storage.memory`; here they get time and faults. A sync
takes a while, and then keeps what the file held when it began. Code that syncs without awaiting, or
writes to a disk that is frozen, waits in the kernel in the middle of an event: the host stands
still until that is over. A write counts at once all the same: whether its last page reached a disk
that lost its power is chance anyway.

A mount belongs to one incarnation; a dead one's raises HostDead.
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
    """How good the disk is when nothing is wrong."""

    sync_ns: tuple[int, int] = (200_000, 2_000_000)
    """How long a sync takes, evenly from to."""
    bytes_per_s: int = 200_000_000
    """How fast what is not synced is written."""


@dataclass(slots=True, kw_only=True)
class _Sync:
    """One that is under way. A killed program waits no more, but the disk goes on."""

    began_ns: int
    target: MemoryFile | str
    finish: Callable[[], None]
    waiter: "tuple[HostLoop, asyncio.Future[None]] | None"
    timer: Call | None = None


class DiskWatcher:
    """Is told what happens to a disk. Does nothing."""

    def written(self, path: str) -> None:
        """The file was appended to or cut by a program."""

    def ended(self) -> None:
        """The program that had the disk mounted is gone."""

    def power_lost(self) -> None:
        """What was not synced may be gone."""


class SimDisk:
    """See the module. Survives the incarnations of its host."""

    def __init__(self, world: World, name: str, settings: DiskSettings | None = None) -> None:
        self.content = MemoryDisk()
        self.ailment = ""
        """What is wrong with it until `repair`; empty when nothing is."""
        self.syncs = 0
        self.watcher = DiskWatcher()
        self._world = world
        self._settings = settings or DiskSettings()
        self._rng = world.stream("disk", name)
        self._frozen = False
        self._full = False
        self._errno = 0
        self._drops_after: int | None = None
        self.reads_for_itself = True
        """Whether the program reads, and not somebody who looks at it from outside the world."""
        self.dropped: int | None = None
        """How many bytes the sync had to write that failed since `drop_sync`."""
        self._limit: tuple[int, int] | None = None
        self._mount: Mount | None = None
        self._in_flight: dict[int, _Sync] = {}

    def mount(self, loop: HostLoop) -> "Mount":
        """The disk as an incarnation sees it."""
        self._mount = Mount(self, loop)
        return self._mount

    # -- what the host does

    def forget(self, loop: HostLoop) -> None:
        """The program is gone; what it asked the kernel for goes on."""
        for sync in self._in_flight.values():
            if sync.waiter is not None and sync.waiter[0] is loop:
                sync.waiter = None
        self.watcher.ended()

    def lose_power(self) -> None:
        """Forget what was not synced, but for a part that chance chooses."""
        for sync in self._in_flight.values():
            if sync.timer is not None:
                sync.timer.cancel()
        self._in_flight.clear()
        self.content.crash(self._rng)
        self.watcher.power_lost()

    # -- faults

    def freeze(self) -> None:
        """Let nothing be written, and no sync return, until `thaw`."""
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
        """Let the disk write no more than that from now on; 0 is no limit."""
        self._limit = bytes_per_s, operations_per_s

    def unlimit(self) -> None:
        """Undo `limit`."""
        self._limit = None

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._limit is not None

    def fill(self) -> int:
        """Take everything that is free; how much that was."""
        free = self.free_bytes()
        self._full = True
        return free

    def drain(self) -> None:
        """Undo `fill`."""
        self._full = False

    def free_bytes(self) -> int:
        """What may still be written."""
        return 0 if self._full else self.content.space().usable

    def set_read_only(self) -> None:
        """Bring everything to the disk, and refuse writes from now on (EROFS)."""
        self.content.sync_all()
        self._errno, self.ailment = errno.EROFS, "it is read-only"

    def fail(self) -> None:
        """Bring everything to the disk, and let everything fail from now on (EIO)."""
        self.content.sync_all()
        self._errno, self.ailment = errno.EIO, "it fails"

    def repair(self) -> None:
        """Undo `set_read_only` and `fail`."""
        self._errno, self.ailment = 0, ""

    def drop_sync(self, *, after: int = 0) -> None:
        """Let a sync of a file fail (EIO), and what it was to write be taken for clean: it is read,
        and lost with the power, whatever is synced later. The next that has anything to write, or
        another one `after` so many.
        """
        self._drops_after, self.dropped = after, None

    def keep_syncs(self) -> None:
        """No sync is to fail any more, and none has."""
        self._drops_after = self.dropped = None

    @property
    def drops(self) -> bool:
        """Whether that is still to come."""
        return self._drops_after is not None

    @property
    def frozen(self) -> bool:
        """Whether writes wait."""
        return self._frozen

    @property
    def full(self) -> bool:
        """Whether nothing more may be written."""
        return self._full

    @property
    def errno(self) -> int:
        """How it refuses; 0 when it does not."""
        return self._errno

    # -- what mounts ask for

    def reading(self) -> None:
        """Something is read. Raises OSError."""
        if self._errno == errno.EIO and self.reads_for_itself:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def writing(self, loop: HostLoop, size: int = 0) -> None:
        """Something is written, or a name is changed. Raises OSError."""
        if self._errno:
            raise OSError(self._errno, os.strerror(self._errno))
        if self._full and size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._frozen:
            loop.host.hold(FROZEN)

    def sync_ns(self, size: int) -> int:
        """How long a sync takes that begins now and has so much to write."""
        took = self._rng.randint(*self._settings.sync_ns) + size * NS // self._settings.bytes_per_s
        if self._limit is not None:
            bytes_per_s, operations_per_s = self._limit
            took += size * NS // bytes_per_s if bytes_per_s else 0
            took += NS // operations_per_s if operations_per_s else 0
        return took

    def sync_blocking(self, loop: HostLoop, target: MemoryFile | str) -> None:
        """A sync that the program waits for without letting go of the processor."""
        self.writing(loop)
        self.syncs += 1
        loop.host.stand_still(self.sync_ns(self.content.unsynced_bytes(target)))
        if self._dropped(target):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.content.begin_sync(target)()

    def sync_later(self, loop: HostLoop, target: MemoryFile | str) -> "asyncio.Future[None]":
        """A sync off the program's loop: the future is done when it is."""
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
            loop.delivered_at_ns(self._world.now_ns, _tell, done, error)

    def _dropped(self, target: MemoryFile | str) -> bool:
        """Whether a sync fails that is about to end."""
        if self._drops_after is None or isinstance(target, str) or not target.unsynced_bytes():
            return False
        if self._drops_after:
            self._drops_after -= 1
            return False
        self._drops_after = None
        self.dropped = target.drop_unsynced()
        return True

    def oldest_sync_age_ms(self, loop: HostLoop, now_ms: float) -> float:
        """Of the program's syncs that are under way."""
        for sync in self._in_flight.values():
            if sync.waiter is not None and sync.waiter[0] is loop:
                return max(0.0, now_ms - sync.began_ns / MS)
        return 0.0


def _tell(done: "asyncio.Future[None]", error: OSError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


class SimFile:
    """An open file of one incarnation's."""

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

    def write_again(self, start: int = 0) -> None:
        self._mount.writing()
        self.file.write_again(start)

    def sync(self) -> None:
        self._mount.sync_blocking(self.file)

    def close(self) -> None:
        """Nothing is kept open."""


class Mount:
    """`nodes.storage.disk.Disk`, for one incarnation."""

    def __init__(self, disk: SimDisk, loop: HostLoop) -> None:
        self.loop = loop
        self._disk = disk
        self._content = disk.content

    def reading(self) -> None:
        """See SimDisk; and the program must be alive."""
        self.loop.check()
        self._disk.reading()

    def writing(self, size: int = 0) -> None:
        """See SimDisk; and the program must be alive."""
        self.loop.check()
        self._disk.writing(self.loop, size)

    def written(self, path: str) -> None:
        """A file was appended to or cut."""
        self._disk.watcher.written(path)

    def sync_blocking(self, target: MemoryFile | str) -> None:
        """See SimDisk; and the program must be alive."""
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
