"""The nodes' own file systems, and stalled disks."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from harness.targets.base import Unsupported
from harness.targets.linux import kernel
from harness.targets.linux.disks import volumes
from harness.targets.linux.disks.volumes import Volume
from harness.targets.linux.undo import UNDO, undo_records
from tests.support.nemesis.fakes import FakeJournal, Trace
from tests.support.require import require
from tests.support.targets.machine import local_target

IMAGES = [Volume.IMAGE_EXT4, Volume.IMAGE_XFS]


def skip_without(volume: Volume) -> None:
    """Skip where the machine cannot make such a volume."""
    require("loop", *(["xfs"] if volume is Volume.IMAGE_XFS else []))


def sync_in_thread(path: Path) -> threading.Thread:
    """Write to a file and fsync it, in a thread that ends when the disk has it."""

    def work() -> None:
        with path.open("ab") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("volume", IMAGES)
def test_each_node_has_its_own_empty_file_system(tmp_path: Path, volume: Volume) -> None:
    """Without a directory that a broker could take for a log."""
    skip_without(volume)
    with local_target(tmp_path, nodes=2, volume=volume) as target:
        first, second = target.data_dir(1), target.data_dir(2)
        assert len({place.stat().st_dev for place in (first, second, tmp_path)}) == 3
        assert list(first.iterdir()) == []


@pytest.mark.parametrize("volume", IMAGES)
def test_a_frozen_disk_blocks_an_fsync_until_it_is_thawed(tmp_path: Path, volume: Volume) -> None:
    """Only that node's disk, and the fsync succeeds in the end."""
    skip_without(volume)
    with local_target(tmp_path, nodes=2, volume=volume) as target:
        target.disks.freeze(1)
        stalled = sync_in_thread(target.data_dir(1) / "file")
        free = sync_in_thread(target.data_dir(2) / "file")
        free.join(60)
        assert not free.is_alive()
        stalled.join(0.2)
        assert stalled.is_alive()
        target.disks.freeze(1)  # twice is once
        target.disks.thaw(1)
        target.disks.thaw(1)
        stalled.join(60)
        assert not stalled.is_alive()


def test_rcu_is_expedited_only_while_a_disk_is_being_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A harness killed meanwhile leaves a record for the undo; RCU expedited before stays so."""
    knob, seen, trace = tmp_path / "rcu_expedited", list[str](), Trace()
    monkeypatch.setattr(kernel, "_EXPEDITED", knob)

    def freeze(_: Path) -> bool:
        seen.append(knob.read_text())
        raise OSError("no")

    monkeypatch.setattr(kernel, "freeze", freeze)
    for before in ("0\n", "1\n"):
        knob.write_text(before)
        with pytest.raises(OSError, match="no"):
            volumes.freeze(tmp_path, FakeJournal(trace))
        assert knob.read_text().strip() == before.strip()
    assert [each.strip() for each in seen] == ["1", "1"]
    for (_, kind, fields), after in zip(trace.entries, ("0", "1"), strict=True):
        knob.write_text("1")
        assert isinstance(fields, dict)
        assert undo_records([{"kind": kind, **fields}], UNDO) == ([], [])
        assert knob.read_text() == after


def test_a_disk_is_flushed_unless_it_is_stalled(tmp_path: Path) -> None:
    """Flushed data survives a power loss; a stalled disk does not block the flush."""
    require("root", "loop")
    with local_target(tmp_path, nodes=2, volume=Volume.IMAGE_EXT4) as target:
        for node in (1, 2):
            (target.data_dir(node) / "file").write_bytes(b"waits")
        target.disks.flush(1)
        target.disks.cut_power([1, 2])
        assert (target.data_dir(1) / "file").read_bytes() == b"waits"
        assert not (target.data_dir(2) / "file").exists()
        target.disks.freeze(1)
        target.disks.flush(1)
        target.disks.thaw(1)


def test_a_node_that_waits_for_a_frozen_disk_can_be_killed(tmp_path: Path) -> None:
    """The kill thaws the disk, since the kernel ends no process in the middle of a write."""
    require("root", "loop")
    with local_target(tmp_path, volume=Volume.IMAGE_EXT4) as target:
        script = 'cd "$0"; echo up > up; while [ -e up ]; do echo x >> file; done'
        command = ["sh", "-c", script, str(target.data_dir(1))]
        target.set_command(1, command, {"PATH": os.environ["PATH"]}, tmp_path / "log")
        target.start(1)
        assert kernel.wait_until((target.data_dir(1) / "file").exists, 60)
        target.disks.freeze(1)
        assert kernel.wait_until(lambda: target.state(1) == "D", 60)
        target.kill(1)
        assert not target.is_running(1)
        sync_in_thread(target.data_dir(1) / "other").join(60)


def test_a_plain_directory_cannot_stall(tmp_path: Path) -> None:
    """The abilities say so, and the fault is refused."""
    require("root", "netns")
    with local_target(tmp_path, volume=Volume.DIRECTORY) as target:
        assert "disk-stalls" not in target.abilities
        with pytest.raises(Unsupported, match="plain directory"):
            target.disks.freeze(1)
        target.disks.thaw(1)


def test_an_image_is_kept_only_on_request(tmp_path: Path) -> None:
    """Disks take gigabytes, so the run removes them by default."""
    require("root", "loop")
    image = tmp_path / "run/nodes/1/data.img"
    with local_target(tmp_path, volume=Volume.IMAGE_EXT4) as target:
        (target.data_dir(1) / "file").write_text("here")
        target.down(keep_data=True)
        assert image.exists()
    assert not image.exists()


def test_a_mount_in_another_namespace_does_not_keep_the_loop_device(tmp_path: Path) -> None:
    """Containers and sandboxes copy every mount."""
    require("root", "loop")
    with local_target(tmp_path, volume=Volume.IMAGE_EXT4) as target:
        copy = ["unshare", "--mount", "--propagation", "private"]
        with subprocess.Popen(
            [*copy, "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE
        ) as sandbox:
            try:
                assert sandbox.stdout is not None
                sandbox.stdout.readline()
                target.down()
                assert kernel.loops_over(tmp_path / "run/nodes/1/data.img") == []
            finally:
                sandbox.kill()


@pytest.mark.parametrize("volume", IMAGES)
def test_a_mount_in_another_namespace_does_not_prevent_a_power_loss(
    tmp_path: Path, volume: Volume
) -> None:
    """The old file system must not be mounted again in place of the disk's content."""
    skip_without(volume)
    with local_target(tmp_path, volume=volume) as target:
        file = target.data_dir(1) / "unsynced"
        file.write_bytes(b"lost")
        copy = ["unshare", "--mount", "--propagation", "private"]
        with subprocess.Popen(
            [*copy, "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE
        ) as sandbox:
            try:
                assert sandbox.stdout is not None
                sandbox.stdout.readline()
                target.disks.cut_power([1])
                assert not file.exists()
                file.write_bytes(b"kept")
                sync_in_thread(file).join()
            finally:
                sandbox.kill()
