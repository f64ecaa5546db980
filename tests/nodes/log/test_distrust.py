"""A log of which a sync had failed: written again before anything counts on it."""

import errno
from pathlib import Path

import pytest

from nodes.ids import Epoch, Offset
from nodes.log import distrust
from nodes.log.log import Log
from nodes.storage.disk import Disk, File
from nodes.storage.local import LocalDisk
from nodes.storage.memory import MemoryDisk, MemoryFile
from tests.nodes.log.build import DIRECTORY, batch, content, open_log
from tests.nodes.storage.crashes import sweep

MARK = f"{DIRECTORY}/{distrust.MARK}"


def filled(disk: Disk, *, flushed: int = 6, more: int = 6) -> Log:
    """A log of several segments, flushed in the middle."""
    log = open_log(disk)
    for _ in range(flushed):
        log.append_as_leader(batch(value=b"v" * 50), Epoch(1))
    log.flush()
    for _ in range(more):
        log.append_as_leader(batch(value=b"v" * 50), Epoch(1))
    return log


def fail(log: Log, monkeypatch: pytest.MonkeyPatch, number: int = errno.EIO) -> None:
    """The kernel fails a sync of the active segment, and takes what it was to write for clean."""
    file = log._segments.active.file

    def sync() -> None:
        if drop := getattr(file, "drop_unsynced", None):
            drop()
        raise OSError(number, "so it is")

    monkeypatch.setattr(file, "sync", sync)
    with pytest.raises(OSError, match="so it is"):
        log.flush()
    monkeypatch.undo()


def test_what_is_said_to_be_flushed_is_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the page cache shows all of it, and syncs of it succeed."""
    disk = MemoryDisk()
    log = filled(disk)
    point, before = log.flushed_offset, content(log)
    fail(log, monkeypatch)
    again = open_log(disk, recovery_point=point)
    assert (content(again), again.flushed_offset) == (before, again.end_offset)
    assert not disk.exists(MARK)
    disk.crash()
    assert content(open_log(disk)) == before


def test_without_its_mark_the_cache_would_be_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above would be worth nothing without."""
    disk = MemoryDisk()
    log = filled(disk)
    point, before = log.flushed_offset, content(log)
    fail(log, monkeypatch)
    disk.unlink(MARK)
    assert open_log(disk, recovery_point=point).flushed_offset == log.end_offset
    disk.crash()
    assert len(content(open_log(disk))) < len(before)


def test_what_was_flushed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only segments that reach beyond the recovery point are copied; a large log is not."""
    disk = MemoryDisk()
    log = filled(disk)
    point = log.flushed_offset
    files = {s.base_offset: s.file._inode for s in log._segments.all}  # type: ignore[attr-defined]
    fail(log, monkeypatch)
    again = open_log(disk, recovery_point=point)
    same = {
        s.base_offset: s.file._inode is files[s.base_offset]  # type: ignore[attr-defined]
        for s in again._segments.all
    }
    ends = {s.base_offset: s.next_offset for s in again._segments.all}
    assert same == {base: end <= point for base, end in ends.items()}
    assert set(same.values()) == {True, False}


def test_a_full_disk_is_no_reason_to_distrust_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was taken for written; and there may be no room for a copy."""
    disk = MemoryDisk()
    fail(filled(disk), monkeypatch, errno.ENOSPC)
    assert not disk.exists(MARK)


def test_a_full_disk_takes_the_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of an index, which can be made again: it has no room for one file more."""
    disk = MemoryDisk()
    log = filled(disk)
    point, before = log.flushed_offset, content(log)
    opened = disk.open

    def full(path: str, *, create: bool = False) -> File:
        if create and not disk.exists(path):
            raise OSError(errno.ENOSPC, "no room")
        return opened(path)

    monkeypatch.setattr(disk, "open", full)
    file = log._segments.active.file
    assert isinstance(file, MemoryFile)
    file.drop_unsynced()
    log.health.fail(OSError(errno.EIO, "so it is"))
    monkeypatch.undo()
    assert disk.exists(MARK)
    again = open_log(disk, recovery_point=point)
    disk.crash()
    assert again.flushed_offset == log.end_offset
    assert content(open_log(disk)) == before


def test_a_sync_that_fails_after_the_disk_was_full_leaves_the_mark() -> None:
    """The log was offline by then, for a reason that would have left none."""
    disk = MemoryDisk()
    log = filled(disk)
    log.health.fail(OSError(errno.ENOSPC, "no room"))
    assert not disk.exists(MARK)
    log.health.fail(OSError(errno.EIO, "so it is"))
    assert disk.exists(MARK)
    assert "no room" in log.health.offline


def test_a_log_of_real_files_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same records in another file."""
    disk = LocalDisk(tmp_path)
    log = filled(disk)
    before, active = content(log), tmp_path / f"{log._segments.active.stem}.log"
    number = active.stat().st_ino
    fail(log, monkeypatch)
    log.close()
    with active.open("rb"):  # so that its number is not used again
        again = open_log(disk)
        assert active.stat().st_ino != number
    assert content(again) == before
    again.close()
    assert not list(tmp_path.rglob("*.tmp"))


class Again:
    """A log that had failed is opened; it dies meanwhile."""

    killed = False

    def __init__(self) -> None:
        self.before: list[bytes] = []
        self.point = Offset(0)

    def run(self, disk: Disk) -> None:
        log = filled(disk)
        self.point = log.flushed_offset
        self.before = content(log)
        distrust.leave_mark(disk, DIRECTORY)
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


def test_writing_again_bears_death_at_every_operation() -> None:
    """Killed, or without power: what was flushed is there, and all that was not is tried again."""
    assert sweep(Again, seeds=range(1)) > 50
