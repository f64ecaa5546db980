"""The crash harness: it finds what is unsafe, and passes what is not."""

from pathlib import Path

import pytest

from nodes.storage.disk import Disk
from nodes.storage.memory import MemoryDisk
from tests.tools.storage_crashes import Crashed, CrashingDisk, sweep, sweep_files


class Counter:
    """A number in a file, counted up; each value is promised once it is written."""

    durable = True

    def __init__(self) -> None:
        self.promised = 0

    def run(self, disk: Disk) -> None:
        for number in range(1, 5):
            disk.write_atomic("n", b"%d" % number, durable=self.durable)
            self.promised = number

    def check(self, disk: Disk) -> None:
        found = int(disk.read("n")) if disk.exists("n") else 0
        assert found in (self.promised, self.promised + 1)
        disk.write_atomic("n", b"%d" % found)


class Unsynced(Counter):
    """... promised without a sync."""

    durable = False


class InPlace(Counter):
    """... overwritten in place."""

    def run(self, disk: Disk) -> None:
        file = disk.open("n", create=True)
        for number in range(1, 5):
            file.truncate(0)
            file.append(b"%d" % number)
            self.promised = number


def test_a_safe_scenario_survives_every_death(tmp_path: Path) -> None:
    """Five operations for each atomic write, and every way to die at each."""
    assert sweep(Counter, seeds=range(5)) == 4 * 5 * 7
    assert sweep_files(Counter, tmp_path) == 4 * 5


def test_an_acknowledgement_without_a_sync_is_found() -> None:
    """Losing power breaks it, and the failure says where."""
    with pytest.raises(AssertionError, match=r"power lost.* at operation \d+ \(\w+ n"):
        sweep(Unsynced)


def test_writing_in_place_is_found(tmp_path: Path) -> None:
    """A kill between the cut and the write is enough."""
    with pytest.raises(AssertionError, match="killed at operation"):
        sweep(InPlace)
    with pytest.raises(AssertionError, match="killed at operation"):
        sweep_files(InPlace, tmp_path)


def test_a_death_is_final_and_tears_the_current_write() -> None:
    """After it nothing changes the disk any more; the write is cut anywhere."""
    left = set()
    for seed in range(30):
        memory = MemoryDisk()
        disk = CrashingDisk(memory, 2, seed=seed)
        file = disk.open("a", create=True)
        file.append(b"1")
        for _ in range(2):
            with pytest.raises(Crashed):
                file.append(b"234")
        with pytest.raises(Crashed):
            disk.sync_dir("")
        left.add(memory.read("a"))
    assert left == {b"1", b"12", b"123", b"1234"}
