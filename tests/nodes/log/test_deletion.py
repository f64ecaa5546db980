"""Deleting a log: its name at once, its files later, and a crash between."""

from pathlib import Path

import pytest

from nodes.ids import Epoch
from nodes.log.errors import LogOffline
from nodes.log.log import Log
from nodes.storage.local import LocalDisk
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import DIRECTORY, SMALL, batch, content, open_log


def deleted(disk: MemoryDisk) -> None:
    """A log of some segments, deleted."""
    log = open_log(disk)
    for _ in range(10):
        log.append_as_leader(batch(), Epoch(1))
    log.flush()
    log.delete()
    with pytest.raises(LogOffline, match="deleted"):
        log.append_as_leader(batch(), Epoch(1))


def test_a_deleted_log_is_swept() -> None:
    """Its directory has Kafka's kind of name until then; others stay; twice is once."""
    disk = MemoryDisk()
    disk.makedirs("other-delete")
    for _ in range(2):
        deleted(disk)
    gone = [name for name in disk.listdir("") if name.startswith(DIRECTORY)]
    assert len(gone) == 2
    assert all(name.startswith("t-0.") and name.endswith("-delete") for name in gone)
    assert Log.sweep_deleted(disk) == 0
    assert disk.listdir("") == ["other-delete"]
    assert Log.sweep_deleted(disk) == 0


def test_a_sweep_removes_a_bounded_number_of_files() -> None:
    """So many files a call, until nothing is left."""
    disk = MemoryDisk()
    deleted(disk)
    files = sum(len(disk.listdir(name)) for name in disk.listdir(""))
    calls = 1
    while Log.sweep_deleted(disk, max_files=3):
        calls += 1
    assert files / 3 <= calls <= files / 3 + 1
    assert disk.listdir("") == []


def test_a_crash_before_the_sweep_may_bring_it_back_whole() -> None:
    """Never in part; and a log of the same name may begin at once."""
    disk = MemoryDisk()
    deleted(disk)
    disk.crash()
    assert len(content(open_log(disk))) == 10
    disk = MemoryDisk()
    deleted(disk)
    log = open_log(disk)
    log.append_as_leader(batch(), Epoch(1))
    log.flush()
    assert Log.sweep_deleted(disk) == 0
    disk.crash()
    assert Log.sweep_deleted(disk) == 0  # what may be left is an empty directory
    assert disk.listdir("") == [DIRECTORY]
    assert len(content(open_log(disk))) == 1


def test_a_sweep_begins_when_the_new_name_is_on_disk() -> None:
    """A log that comes back after a crash would have only a part of its files."""
    disk = MemoryDisk()
    deleted(disk)
    assert Log.sweep_deleted(disk, max_files=1) == 1
    disk.crash()
    assert DIRECTORY not in disk.listdir("")


def test_the_longest_name_can_be_deleted(tmp_path: Path) -> None:
    """Topics may have 249 characters, directories 255: as in Kafka the name is cut."""
    disk = LocalDisk(tmp_path)
    for partition in range(2):
        Log.open(disk, f"{'t' * 249}-{partition}", SMALL, clean=False).delete()
    assert [len(name) for name in disk.listdir("")] == [255, 255]
    assert Log.sweep_deleted(disk) == 0
    assert disk.listdir("") == []
