"""A new log costs nothing on the disk before it has records, and is a plain log from then on."""

import asyncio

import pytest

from nodes.ids import Epoch, Offset
from nodes.log.config import LogConfig
from nodes.log.log import Log
from nodes.server.replicas.new_directory import NewDirectory
from nodes.storage.memory import MemoryDisk
from tests.nodes.server.test_broker import batch

LOG_FILE = "t-0/00000000000000000000.log"


def opened(disk: MemoryDisk) -> tuple[NewDirectory, Log]:
    directory = NewDirectory(disk, "t-0")
    log = Log.open(directory, "t-0", LogConfig(), clean=False)
    log.assign_epoch(Epoch(3), Offset(0))
    directory.write_atomic("t-0/partition.metadata", b"whose", durable=False)
    return directory, log


def test_empty_log_is_not_on_the_disk() -> None:
    """Not when it is opened, led, described, flushed, closed or deleted."""
    for end in (Log.close, Log.delete):
        disk = MemoryDisk()
        directory, log = opened(disk)
        assert directory.exists("t-0/partition.metadata")
        assert directory.read("t-0/partition.metadata") == b"whose"
        assert log.flush() == 0
        end(log)
        assert disk.listdir("") == []


def test_first_record_writes_all_files_to_the_disk() -> None:
    """Also the files written before it, so that the log can be opened again."""
    disk = MemoryDisk()
    _, log = opened(disk)
    log.append_as_leader(batch(b"1"), Epoch(3))
    assert disk.read("t-0/partition.metadata") == b"whose"
    assert len(disk.read(LOG_FILE)) == log.size
    log.close()
    again = Log.open(disk, "t-0", LogConfig(), clean=True)
    assert (again.end_offset, again.last_epoch) == (1, 3)
    again.close()


def test_log_start_above_zero_is_on_the_disk() -> None:
    """A log that restarts at another offset is not like a new log, although it has no records."""
    disk = MemoryDisk()
    _, log = opened(disk)
    log.truncate_fully(Offset(7))
    log.close()
    again = Log.open(disk, "t-0", LogConfig(), clean=True)
    assert again.end_offset == 7
    again.close()


def test_records_are_synced_in_the_real_files() -> None:
    """A flush off the loop reaches the real file and the real directory."""

    async def run() -> MemoryDisk:
        disk = MemoryDisk()
        _, log = opened(disk)
        log.append_as_leader(batch(b"1"), Epoch(3))
        await log.durable(Offset(1))
        disk.crash()
        return disk

    disk = asyncio.run(run())
    again = Log.open(disk, "t-0", LogConfig(), clean=False)
    assert again.end_offset == 1
    again.close()


def test_missing_files_raise_as_on_any_disk() -> None:
    """As on any disk."""
    directory, log = opened(MemoryDisk())
    for call in (directory.open, directory.unlink, directory.read):
        with pytest.raises(FileNotFoundError):
            call("t-0/nothing")
    log.close()
