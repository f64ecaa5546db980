"""The disk of a simulated host: what a power loss removes, how long syncs take, how
they fail.
"""

import asyncio
import errno
import itertools
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from harness.simulation.world.disk import DiskSettings, SimDisk
from harness.simulation.world.world import MS, HostDead
from tests.support.simulation.worlds import Bare, MakeBare

NODE = 1


def disk_of(world: Bare) -> SimDisk:
    disk = world.hosts[NODE].disk
    assert disk is not None
    return disk


def mounted(world: Bare) -> Any:
    """The disk as the program that runs now sees it."""
    loop = world.hosts[NODE].loop
    assert loop is not None
    return disk_of(world).mount(loop)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_kill_loses_nothing_and_power_loss_loses_unsynced_data(make: MakeBare) -> None:
    """The page cache survives a kill; file names need a sync of their own."""
    world = make()

    async def write() -> None:
        disk = mounted(world)
        for name in ("kept", "nameless", "cached"):
            disk.open(name, create=True).append(b"synced")
        await disk.sync("")
        disk.open("late", create=True).append(b"never")
        for name in ("kept", "late"):
            await disk.sync(disk.open(name))

    world.run(NODE, write)
    content = disk_of(world).content
    assert content.listdir("") == ["cached", "kept", "late", "nameless"]
    seen = []
    for seed in range(10):
        other = make(seed=seed)
        other.run(NODE, partial(_again, other))
        other.hosts[NODE].kill("power")
        seen.append(disk_of(other).content.read("kept"))
        assert disk_of(other).content.exists("unsynced") in (True, False)
    assert set(seen) == {b"synced"}


async def _again(world: Bare) -> None:
    disk = mounted(world)
    file = disk.open("kept", create=True)
    file.append(b"synced")
    await disk.sync(file)
    await disk.sync("")
    disk.open("unsynced", create=True).append(b"x")


def test_sync_keeps_what_the_file_held_at_its_beginning(make: MakeBare) -> None:
    """Bytes appended during the sync are not on the disk when it returns."""
    world = make(disk=DiskSettings(sync_ns=(5 * MS, 5 * MS)))

    async def main() -> float:
        disk = mounted(world)
        file = disk.open("log", create=True)
        await disk.sync("")
        file.append(b"before")
        began = now()
        syncing = asyncio.ensure_future(disk.sync(file))
        await asyncio.sleep(0.001)
        file.append(b"after")
        await syncing
        return now() - began

    assert 0.005 <= world.run(NODE, main) < 0.006
    disk_of(world).content.crash()
    assert disk_of(world).content.read("log") == b"before"


def test_power_loss_during_a_sync_may_lose_all_of_it(make: MakeBare) -> None:
    """A sync promises nothing before it returns."""
    lost = 0
    for seed in range(12):
        world = make(seed=seed, disk=DiskSettings(sync_ns=(5 * MS, 5 * MS)))

        async def main(world: Bare = world) -> None:
            disk = mounted(world)
            file = disk.open("log", create=True)
            await disk.sync("")
            file.append(b"x" * 100)
            await disk.sync(file)

        world.world.after(8 * MS, world.hosts[NODE].kill, "power")
        world.hosts[NODE].boot(main)
        world.world.run_for(1)
        lost += len(disk_of(world).content.read("log")) < 100
    assert 1 < lost < 12


def test_blocking_sync_blocks_the_whole_host(make: MakeBare) -> None:
    """Who syncs without awaiting keeps everybody else of the program waiting."""
    world = make(disk=DiskSettings(sync_ns=(50 * MS, 50 * MS)))
    ticks: list[float] = []

    async def tick() -> None:
        for _ in range(20):
            await asyncio.sleep(0.01)
            ticks.append(now())

    async def main() -> None:
        ticking = asyncio.ensure_future(tick())
        await asyncio.sleep(0.055)
        file = mounted(world).open("vote", create=True)
        file.sync()
        await ticking

    world.run(NODE, main)
    gaps = [after - before for before, after in itertools.pairwise(ticks)]
    assert 0.049 < max(gaps) < 0.061


def test_frozen_disk_blocks_writers_and_hangs_syncs(make: MakeBare) -> None:
    """A write blocks the host in the middle of the event until the thaw."""
    world = make()
    disk = disk_of(world)
    seen: list[tuple[str, float]] = []

    async def main() -> None:
        mount = mounted(world)
        file = mount.open("log", create=True)
        disk.freeze()
        syncing = asyncio.ensure_future(mount.sync(file))
        await asyncio.sleep(2)
        seen.append(("age", mount.oldest_sync_age_ms(now() * 1000)))
        assert not syncing.done()
        file.append(b"x")
        await asyncio.sleep(0)
        seen.append(("written", now()))
        await syncing
        assert mount.oldest_sync_age_ms(now() * 1000) == 0

    task = world.hosts[NODE].boot(main)
    world.world.run_for(10)
    assert world.hosts[NODE].state == "D"
    assert [name for name, _ in seen] == ["age"]
    disk.thaw()
    world.world.run_until(task)
    assert abs(seen[0][1] - 2000) < 1
    assert seen[1][1] == pytest.approx(11, abs=0.01)


def test_bytes_sent_after_a_blocked_write_wait_for_the_thaw(make: MakeBare) -> None:
    """An answer that the code wrote after the write leaves when the disk lets it go on."""
    world = make()
    disk = disk_of(world)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        mounted(world).open("log", create=True).append(b"x")
        writer.write(b"done")
        await reader.read(1)
        writer.close()

    async def server() -> None:
        await (await asyncio.start_server(answer, "0.0.0.0", 7)).serve_forever()

    async def client() -> float:
        reader, writer = await world.connect()
        disk.freeze()
        world.world.after(3_000_000_000, disk.thaw)
        began = now()
        writer.write(b"?")
        assert await reader.readexactly(4) == b"done"
        return now() - began

    world.hosts[NODE].boot(server)
    world.world.run_for(0.1)
    assert 3 <= world.run(0, client) < 3.1


@pytest.mark.parametrize(
    ("break_it", "heal", "reads", "code"),
    [
        (SimDisk.fill, SimDisk.drain, True, errno.ENOSPC),
        (SimDisk.set_read_only, SimDisk.repair, True, errno.EROFS),
        (SimDisk.fail, SimDisk.repair, False, errno.EIO),
    ],
)
def test_full_read_only_or_failing_disk_raises_the_kernels_error(
    make: MakeBare,
    break_it: Callable[[SimDisk], None],
    heal: Callable[[SimDisk], None],
    reads: bool,
    code: int,
) -> None:
    """The errors end with the fault."""
    world = make()
    disk = disk_of(world)

    async def main() -> None:
        mount = mounted(world)
        file = mount.open("log", create=True)
        file.append(b"before")
        break_it(disk)
        assert disk.disk_problem or disk.free_bytes() == 0
        with pytest.raises(OSError) as refused:
            file.append(b"x")
        assert refused.value.errno == code
        if code == errno.EIO:
            with pytest.raises(OSError, match="Input/output"):
                await mount.sync(file)
        if reads:
            assert file.pread(0, 6) == b"before"
        else:
            with pytest.raises(OSError, match="Input/output"):
                file.pread(0, 6)
        heal(disk)
        file.append(b"x")
        assert file.size() == 7
        assert not disk.disk_problem

    world.run(NODE, main)


def test_limit_makes_syncs_slower(make: MakeBare) -> None:
    """Bytes and operations cost time while it is in force."""
    world = make()
    disk = disk_of(world)

    async def main() -> tuple[float, float]:
        mount = mounted(world)
        file = mount.open("log", create=True)
        disk.limit(bytes_per_s=1000, operations_per_s=2)
        assert disk.limited
        file.append(bytes(1000))
        began = now()
        await mount.sync(file)
        slow = now() - began
        disk.unlimit()
        file.append(bytes(1000))
        began = now()
        await mount.sync(file)
        return slow, now() - began

    slow, quick = world.run(NODE, main)
    assert 1.5 <= slow < 1.6
    assert quick < 0.1


def test_flipped_bit_is_read_from_disk_and_cache(make: MakeBare) -> None:
    """On the disk and in the cache: who reads it next sees it."""
    world = make()

    async def main() -> bytes:
        mount = mounted(world)
        file = mount.open("log", create=True)
        file.append(b"aaaa")
        disk_of(world).content.corrupt("log", 2)
        return bytes(file.pread(0, 4))

    assert world.run(NODE, main) == b"aa`a"


def test_older_sync_does_not_undo_a_later_one(make: MakeBare) -> None:
    """Two syncs of a file that was truncated between them may end in either order."""
    content = disk_of(make()).content
    file = content.open("log", create=True)
    content.sync_dir("")
    file.append(b"a" * 100)
    older = file.begin_sync()
    file.truncate(10)
    file.append(b"b" * 40)
    file.begin_sync()()
    older()
    content.crash()
    assert content.read("log") == b"a" * 10 + b"b" * 40


def test_failed_sync_drops_its_pages(make: MakeBare) -> None:
    """The failure is reported once; the next sync succeeds, and a power loss loses the pages."""
    world = make()

    async def main() -> None:
        disk = mounted(world)
        file = disk.open("log", create=True)
        await disk.sync("")
        disk_of(world).fail_next_sync(after=1)
        for content in (b"kept ", b"gone "):
            file.append(content)
            with suppress(OSError):
                await disk.sync(file)
        file.append(b"later")
        file.sync()

    world.run(NODE, main)
    content = disk_of(world).content
    assert not disk_of(world).sync_failure_pending
    assert content.read("log") == b"kept gone later"
    world.hosts[NODE].kill("power")
    assert content.read("log") == b"kept \0\0\0\0\0later"


def test_only_the_outside_reads_files_of_a_dead_program(make: MakeBare) -> None:
    """Invariants look at what it left, also on a disk that refuses reads."""
    world = make()

    async def write() -> Any:
        file = mounted(world).open("log", create=True)
        file.append(b"left")
        return file

    file = world.run(NODE, write)
    world.hosts[NODE].kill()
    disk_of(world).fail()
    with pytest.raises(HostDead):
        file.pread(0, 4)
    with disk_of(world).read_from_outside():
        assert file.pread(0, 4) == b"left"
    with pytest.raises(HostDead):
        file.pread(0, 4)
