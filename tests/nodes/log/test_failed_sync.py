"""After a sync that failed, the page cache is not believed: what it shows is written again."""

import asyncio
import os
from pathlib import Path

import pytest

from nodes.ids import Epoch, Offset
from nodes.log.log import Log
from nodes.log.segment import Segment
from nodes.storage.disk import Disk, File
from nodes.storage.local import LocalDisk
from nodes.storage.memory import MemoryDisk, MemoryFile
from tests.support.nodes.batches import DIRECTORY, batch, content, open_log
from tests.tools.storage_crashes import sweep


def filled(disk: Disk, *, flushed: int = 6, more: int = 6) -> Log:
    """A log of several segments, flushed in the middle."""
    log = open_log(disk)
    for _ in range(flushed):
        log.append_as_leader(batch(value=b"v" * 50), Epoch(1))
    log.flush()
    for _ in range(more):
        log.append_as_leader(batch(value=b"v" * 50), Epoch(1))
    return log


def drop_everything(disk: MemoryDisk) -> None:
    """The kernel fails to write back whatever waits in the log's directory, and takes it for clean;
    whoever asked for that dies before the answer comes.
    """
    for name in disk.listdir(DIRECTORY):
        file = disk.open(f"{DIRECTORY}/{name}")
        assert isinstance(file, MemoryFile)
        file.drop_unsynced()


def test_flushed_data_is_on_the_disk_after_a_failed_sync() -> None:
    """Although the page cache shows all of it, and syncs of it succeed."""
    disk = MemoryDisk()
    log = filled(disk)
    point, before = log.flushed_offset, content(log)
    drop_everything(disk)
    again = open_log(disk, recovery_point=point)
    assert (content(again), again.flushed_offset) == (before, again.end_offset)
    disk.crash()
    assert content(open_log(disk, recovery_point=again.flushed_offset)) == before


def test_without_the_rewrite_cached_data_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above would be worth nothing without."""
    disk = MemoryDisk()
    log = filled(disk)
    point, before = log.flushed_offset, content(log)
    drop_everything(disk)
    monkeypatch.setattr(Segment, "rewrite", lambda segment, start: None)
    assert open_log(disk, recovery_point=point).flushed_offset == log.end_offset
    disk.crash()
    assert len(content(open_log(disk))) < len(before)


def test_indexes_are_on_the_disk_after_a_failed_sync() -> None:
    """Of sealed segments: they are trusted below the recovery point."""
    disk = MemoryDisk()
    log = filled(disk, flushed=1, more=9)
    point = log.flushed_offset
    drop_everything(disk)
    again = open_log(disk, recovery_point=point)
    sealed = [s.stem for s in again._segments.all if s is not again._segments.active]
    shown = {stem: disk.read(f"{stem}.index") for stem in sealed}
    assert any(shown.values())
    disk.crash()
    assert {stem: disk.read(f"{stem}.index") for stem in sealed} == shown


def test_an_epoch_without_records_is_on_the_disk_with_the_next_flush() -> None:
    """Nothing else of the log had to be written."""
    disk = MemoryDisk()
    log = filled(disk)
    point = log.flush()
    log.assign_epoch(Epoch(5), log.end_offset)
    drop_everything(disk)
    again = open_log(disk, recovery_point=point)
    again.append_as_leader(batch(value=b"v"), Epoch(5))
    point = again.flush()
    disk.crash()
    assert open_log(disk, recovery_point=point).epochs == again.epochs


@pytest.mark.parametrize("given_up", [True, False])
def test_a_failed_sync_without_a_waiter_is_repeated_with_a_rewrite(
    given_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails: whoever flushes next, in the end, has to write what it was to write again."""
    disk = MemoryDisk()
    log = filled(disk, flushed=0)
    before = content(log)

    async def sync(target: File | str) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(disk, "sync", sync)

    async def flushed_beside() -> None:
        flushing = asyncio.ensure_future(log.flush_async())
        await asyncio.sleep(0.01)
        drop_everything(disk)
        if given_up:
            flushing.cancel()
            await asyncio.wait([flushing])
        log.flush()
        flushing.cancel()
        await asyncio.wait([flushing])

    asyncio.run(flushed_beside())
    disk.crash()
    assert content(open_log(disk)) == before


def test_flushed_data_is_not_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large log is not written again as a whole, nor the flushed part of its last segment."""
    disk = MemoryDisk()
    log = filled(disk, flushed=7, more=3)
    written: list[tuple[Offset, int]] = []

    def rewrite(segment: Segment, start: int) -> None:
        written.append((segment.base_offset, start))

    monkeypatch.setattr(Segment, "rewrite", rewrite)
    point = log.flushed_offset
    open_log(disk, recovery_point=point)
    [within, *others] = [s for s in log._segments.all if s.next_offset > point]
    assert written == [
        (within.base_offset, next(at for at, h in within.scan() if h.base_offset >= point)),
        *((segment.base_offset, 0) for segment in others),
    ]
    assert written[0][1] > 0


def test_real_files_are_rewritten_in_place(tmp_path: Path) -> None:
    """From the given byte on, and without another byte; what the next sync is asked to bring."""
    (tmp_path / "f").write_bytes(os.urandom(3 << 20))
    before = (tmp_path / "f").read_bytes()
    file = LocalDisk(tmp_path).open("f")
    os.utime(tmp_path / "f", (0, 0))
    file.rewrite(file.size())
    assert (tmp_path / "f").stat().st_mtime == 0
    file.rewrite(4097)
    assert (tmp_path / "f").stat().st_mtime > 0
    assert (tmp_path / "f").read_bytes() == before
    assert not file.close_if_idle()
    assert not file.close_if_idle()  # not before it is synced
    file.sync()
    file.close_if_idle()
    assert file.close_if_idle()


class Again:
    """A log is opened whose process died; it dies meanwhile."""

    killed = False

    def __init__(self) -> None:
        self.before: list[bytes] = []
        self.point = Offset(0)

    def run(self, disk: Disk) -> None:
        log = filled(disk)
        self.point = log.flushed_offset
        self.before = content(log)
        again = open_log(disk, recovery_point=self.point)
        self.point = again.flushed_offset
        again.close()

    def check(self, disk: Disk) -> None:
        log = open_log(disk, recovery_point=self.point)
        found = content(log)
        if self.killed:
            assert found[: len(self.before)] == self.before
        assert found[: self.point] == self.before[: self.point]
        log.close()


def test_a_rewrite_survives_death_at_every_operation() -> None:
    """Killed, or without power: what was flushed is there, and all that was not is tried again."""
    assert sweep(Again, seeds=range(1)) > 50
