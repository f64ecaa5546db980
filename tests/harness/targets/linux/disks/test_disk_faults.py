"""Every fault of disks on real file systems: its effect in the kernel, and its heal."""

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from harness.run.hosts import hosts_of
from harness.targets.base import NodeState, Unsupported
from harness.targets.linux import kernel
from harness.targets.linux.disks import files, throttles
from harness.targets.linux.disks.disks import BALLAST
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget
from nemesis.base import NotApplicable
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Fault, Injection, Measurement, Params
from nemesis.hosts import Hosts
from tests.harness.targets.linux.disks.test_volumes import IMAGES, skip_without
from tests.support.nemesis.administration import FakeAdministration
from tests.support.nemesis.fakes import FakeView
from tests.support.require import require
from tests.support.targets.machine import local_target

PATIENCE_S = 20.0
WRITER = """
import os, sys, time
root = sys.argv[1]
def append(name, size, sync):
    path = os.path.join(root, "log", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, bytes([size % 251]) * size)
    if sync:
        os.fsync(file)
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    os.close(file)
append("t-0/0.log", 10_000, True)
append("__cluster_metadata-0/0.log", 5_000, True)
append("kept", 100, True)
append("t-0/0.log", 70_001, False)
append("t-1/0.log", 123_456, False)
append("__cluster_metadata-0/0.log", 42, False)
print("written", flush=True)
time.sleep(1000)
"""
SYNCED = {"log/__cluster_metadata-0/0.log": 5_000, "log/kept": 100, "log/t-0/0.log": 10_000}


def injection(fault: Fault, *nodes: int, **given: str) -> Injection:
    """The fault, aimed at the nodes."""
    params = Params.of(fault.options, given)
    return fault.plan_injection(nodes, nodes, random.Random(7), params)


def proven(measure: Callable[[], Measurement]) -> str:
    """Ask for the proof until it is there; its text."""
    seen: list[Measurement] = []

    def look() -> bool:
        seen.append(measure())
        return seen[-1].confirmed

    assert kernel.wait_until(look, PATIENCE_S, 0.02), seen[-1].evidence
    return seen[-1].evidence


@contextmanager
def nodes_on(
    volume: Volume, place: Path, count: int = 1, script: str = "import time; time.sleep(1000)"
) -> Iterator[tuple[LocalTarget, Hosts]]:
    """Nodes that run the script, whose argument is their directory."""
    skip_without(volume)
    with local_target(place, nodes=count, volume=volume) as target:
        for node in target.node_ids():
            argv = [sys.executable, "-c", script, str(target.data_dir(node))]
            target.set_command(node, argv, dict(os.environ), place / f"{node}.log")
            target.start(node)
        yield target, hosts_of(target, FakeView(), FakeAdministration())


def wait_for_text(path: Path, text: str) -> None:
    """Until a node's output has it."""
    assert kernel.wait_until(lambda: path.exists() and text in path.read_text(), PATIENCE_S)


@pytest.mark.parametrize("volume", IMAGES)
def test_a_power_loss_loses_exactly_the_data_after_the_last_fsync(
    tmp_path: Path, volume: Volume
) -> None:
    """On both nodes at the same time; files without any fsync are empty or gone.

    The test takes less than 30 s, so that the kernel writes nothing back by itself.
    """
    with nodes_on(volume, tmp_path, 2, WRITER) as (target, hosts):
        for node in (1, 2):
            wait_for_text(tmp_path / f"{node}.log", "written")
        fault = find("power-loss")
        aimed = injection(fault, 1, 2)
        began_s = time.monotonic()
        fault.inject(hosts, aimed)
        print(f"{volume}: injected in {(time.monotonic() - began_s) * 1000:.0f} ms")
        for node in (1, 2):
            assert target.disks.files(node) == SYNCED
            content = (target.data_dir(node) / "log/t-0/0.log").read_bytes()
            assert content == bytes([10_000 % 251]) * 10_000
        evidence = proven(lambda: fault.measure_effect(hosts, aimed))
        print(evidence)
        assert evidence.count("lost 193,457 bytes of logs (t-1 123,456, t-0 70,001), ") == 2
        assert evidence.count("42 of the metadata log, 0 of other files, 2 nodes within ") == 2
        for _ in range(2):
            fault.heal(hosts, aimed)
            assert fault.measure_heal(hosts, aimed).confirmed
        for node in (1, 2):
            wait_for_text(tmp_path / f"{node}.log", "written\nwritten")


@pytest.mark.parametrize("volume", IMAGES)
def test_a_stall_delays_a_write_until_the_heal(tmp_path: Path, volume: Volume) -> None:
    """The write then succeeds."""
    with nodes_on(volume, tmp_path) as (_, hosts):
        fault = find("disk.stall")
        aimed = injection(fault, 1)
        began_s = time.monotonic()
        fault.inject(hosts, aimed)
        proven(lambda: fault.measure_effect(hosts, aimed))
        time.sleep(0.4)
        probe = hosts.disks.probed(1, aimed.detail("key"))
        assert probe is not None
        assert not probe.done
        fault.heal(hosts, aimed)
        evidence = proven(lambda: fault.measure_heal(hosts, aimed))
        print(evidence)
        taken_ms = float(evidence.partition(" took ")[2].removesuffix(" ms").replace(",", ""))
        assert 0 < taken_ms <= (time.monotonic() - began_s) * 1000


@pytest.mark.parametrize("volume", IMAGES)
def test_a_slow_disk_limits_the_bytes_per_second(tmp_path: Path, volume: Volume) -> None:
    """After the heal the kernel has no limit."""
    require("disk-limits")
    with nodes_on(volume, tmp_path, 2) as (target, hosts):
        fault = find("disk.slow")
        aimed = injection(fault, 1, bytes_per_s="400000")
        fault.inject(hosts, aimed)
        assert target.disks.is_limited(1)
        assert not target.disks.is_limited(2)
        proven(lambda: fault.measure_effect(hosts, aimed))
        assert kernel.wait_until(
            lambda: (seen := hosts.disks.probed(1, aimed.detail("key"))) is not None and seen.done,
            PATIENCE_S,
        )
        print(fault.measure_effect(hosts, aimed).evidence)
        for _ in range(2):
            fault.heal(hosts, aimed)
            assert fault.measure_heal(hosts, aimed).confirmed
        assert not target.disks.is_limited(1)


def test_a_slow_disk_limits_the_operations_per_second(tmp_path: Path) -> None:
    """The limit delays fsyncs too."""
    require("disk-limits")
    with nodes_on(Volume.IMAGE_EXT4, tmp_path) as (_, hosts):
        fault = find("disk.slow")
        aimed = injection(fault, 1, bytes_per_s="0", operations_per_s="5")
        fault.inject(hosts, aimed)
        print(proven(lambda: fault.measure_effect(hosts, aimed)))
        fault.heal(hosts, aimed)
        assert fault.measure_heal(hosts, aimed).confirmed


def test_a_node_with_a_slow_disk_is_killed_quickly_and_its_disk_stays_slow(tmp_path: Path) -> None:
    """A process that waits for a slow disk would take minutes to end."""
    script = "import os, sys\nf = open(sys.argv[1] + '/f', 'wb')\n"
    script += "for _ in range(64): f.write(bytes(1 << 20))\nf.flush(); os.fsync(f.fileno())"
    require("disk-limits")
    with nodes_on(Volume.IMAGE_EXT4, tmp_path, 1, script) as (target, hosts):
        target.kill(1)
        hosts.disks.limit(1, bytes_per_s=100_000, operations_per_s=0)
        target.start(1)
        assert kernel.wait_until(lambda: target.state(1) == "D", PATIENCE_S)
        target.kill(1)
        assert hosts.disks.is_limited(1)
        hosts.disks.unlimit(1)


@pytest.mark.parametrize("volume", IMAGES)
def test_a_full_disk_refuses_writes_until_the_heal(tmp_path: Path, volume: Volume) -> None:
    """Space that is freed meanwhile is filled too."""
    with nodes_on(volume, tmp_path) as (target, hosts):
        room = hosts.disks.free_bytes(1)
        (target.data_dir(1) / "freed").write_bytes(bytes(1 << 20))
        fault = find("disk.full")
        aimed = injection(fault, 1)
        fault.inject(hosts, aimed)
        print(proven(lambda: fault.measure_effect(hosts, aimed)))
        (target.data_dir(1) / "freed").unlink()
        fault.tick(hosts, aimed, 250)
        assert hosts.disks.free_bytes(1) < 1 << 17
        assert list(target.disks.files(1)) == []
        for _ in range(2):
            fault.heal(hosts, aimed)
            assert fault.measure_heal(hosts, aimed).confirmed
        assert hosts.disks.free_bytes(1) >= room - (1 << 16)


@pytest.mark.parametrize("volume", IMAGES)
def test_filling_a_disk_takes_no_space_of_the_machine(tmp_path: Path, volume: Volume) -> None:
    """The image stays sparse: the fault reserves blocks without writing."""
    with nodes_on(volume, tmp_path) as (target, hosts):
        image = target.data_dir(1).with_name("data.img")
        before = image.stat().st_blocks * 512
        assert hosts.disks.fill(1) > 7 << 30
        kernel.sync(target.data_dir(1))
        taken = image.stat().st_blocks * 512 - before
        print(f"{volume}: {taken:,} bytes")
        assert taken < 16 << 20
        hosts.disks.drain(1)


def test_nothing_is_written_while_the_disk_is_not_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is on the machine's own file system then, as during a power loss."""
    asked: list[str] = []

    def fill(_directory: int, name: str) -> int:
        """Nothing is filled, whatever is wrong with the guard."""
        asked.append(name)
        return 0

    monkeypatch.setattr(files, "fill", fill)
    with nodes_on(Volume.IMAGE_EXT4, tmp_path) as (target, hosts):
        hosts.disks.fill(1)
        assert asked == [BALLAST]
        target.kill(1)
        kernel.umount(target.data_dir(1))
        with pytest.raises(NodeState, match="not mounted"):
            hosts.disks.fill(1)
        assert asked == [BALLAST]
        hosts.disks.probe(1, "p", 4096)
        seen = hosts.disks.end_probe(1, "p")
        assert seen is not None
        assert seen.error == "it is not mounted"
        assert list(target.data_dir(1).iterdir()) == []


def test_a_disk_becomes_read_only_with_open_files(tmp_path: Path) -> None:
    """Written data stays, reads work, and the heal makes it writable again."""
    with nodes_on(Volume.IMAGE_EXT4, tmp_path, 1, WRITER) as (target, hosts):
        wait_for_text(tmp_path / "1.log", "written")
        written = target.disks.files(1)
        with (target.data_dir(1) / "log/kept").open("ab", buffering=0) as file:
            fault = find("disk.read-only")
            aimed = injection(fault, 1)
            fault.inject(hosts, aimed)
            evidence = proven(lambda: fault.measure_effect(hosts, aimed))
            assert evidence == "node 1: a write: Read-only file system"
            with pytest.raises(OSError, match="Read-only"):
                file.write(b"x")
            assert (target.data_dir(1) / "log/kept").read_bytes() != b""
        target.kill(1)
        target.set_command(1, ["sleep", "1000"], dict(os.environ), tmp_path / "log")
        for _ in range(2):
            fault.heal(hosts, aimed)
            assert fault.measure_heal(hosts, aimed).confirmed
        assert target.disks.files(1) == written
        (target.data_dir(1) / "log/kept").write_bytes(b"again")


def test_only_ext4_can_become_read_only(tmp_path: Path) -> None:
    """XFS does not claim the ability."""
    with nodes_on(Volume.IMAGE_XFS, tmp_path) as (target, hosts):
        assert "disk-read-only" not in target.abilities
        with pytest.raises(Unsupported):
            hosts.disks.set_read_only(1)
        assert target.state(1) != "T"


@pytest.mark.parametrize("volume", IMAGES)
def test_a_failing_disk_fails_every_access_and_loses_nothing(
    tmp_path: Path, volume: Volume
) -> None:
    """Reads and writes fail; earlier data is there after the heal."""
    with nodes_on(volume, tmp_path, 1, WRITER) as (target, hosts):
        wait_for_text(tmp_path / "1.log", "written")
        written = target.disks.files(1)
        fault = find("disk.error")
        aimed = injection(fault, 1)
        fault.inject(hosts, aimed)
        assert "Input/output error" in proven(lambda: fault.measure_effect(hosts, aimed))
        with pytest.raises(OSError, match="Input/output"):
            (target.data_dir(1) / "log/kept").read_bytes()
        with pytest.raises(NodeState, match="failing already"):
            hosts.disks.cut_power([1])
        target.kill(1)
        target.set_command(1, ["sleep", "1000"], dict(os.environ), tmp_path / "log")
        for _ in range(2):
            fault.heal(hosts, aimed)
            assert fault.measure_heal(hosts, aimed).confirmed
        assert target.disks.files(1) == written


@pytest.mark.parametrize("volume", [Volume.DIRECTORY, *IMAGES])
def test_files_of_a_stopped_node_are_damaged_and_removed(tmp_path: Path, volume: Volume) -> None:
    """A bit, a tail, or all files, before the node starts again."""
    with nodes_on(volume, tmp_path, 1) as (target, hosts):
        log = target.data_dir(1) / "log/t-0/00000000000000000000.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(bytes(1000))
        for name, left in (("disk.bit-flip", 1000), ("disk.cut-tail", None), ("disk.lost", None)):
            fault = find(name)
            aimed = injection(fault, 1)
            fault.inject(hosts, aimed)
            assert not target.is_running(1)
            print(proven(partial(fault.measure_effect, hosts, aimed)))
            if left is not None:
                assert sum(byte.bit_count() for byte in log.read_bytes()) == 1
            fault.heal(hosts, aimed)
            assert fault.measure_heal(hosts, aimed).confirmed
        assert list(target.disks.files(1)) == []
        assert list(target.data_dir(1).iterdir()) == []


@pytest.mark.parametrize("volume", [Volume.DIRECTORY, Volume.IMAGE_EXT4])
def test_a_stale_copy_of_files_is_restored(tmp_path: Path, volume: Volume) -> None:
    """Files are as at the injection; later files stay."""
    with nodes_on(volume, tmp_path, 1) as (target, hosts):
        logs = target.data_dir(1) / "log/t-0"
        logs.mkdir(parents=True)
        (logs / "0.log").write_bytes(b"old")
        fault = find("disk.stale-copy")
        aimed = injection(fault, 1, age_ms="0")
        fault.inject(hosts, aimed)
        (logs / "0.log").write_bytes(b"newer")
        (logs / "1.log").write_bytes(b"new")
        fault.tick(hosts, aimed, 0)
        assert "(5 to 3 bytes)" in fault.measure_effect(hosts, aimed).evidence
        assert (logs / "0.log").read_bytes() == b"old"
        assert (logs / "1.log").read_bytes() == b"new"
        fault.heal(hosts, aimed)
        assert target.is_running(1)
        assert not (target.data_dir(1).parent / "copies" / aimed.detail("key")).exists()


def test_overlapping_faults_of_one_disk_do_not_block_each_other(tmp_path: Path) -> None:
    """A stalled disk can be filled, drained, made to fail and lose its power."""
    with nodes_on(Volume.IMAGE_EXT4, tmp_path) as (target, hosts):
        stall, full, error, loss = map(
            find, ("disk.stall", "disk.full", "disk.error", "power-loss")
        )
        aimed = {fault.name: injection(fault, 1) for fault in (stall, full, error, loss)}
        stall.inject(hosts, aimed[stall.name])
        full.inject(hosts, aimed[full.name])
        stall.measure_effect(hosts, aimed[stall.name])
        time.sleep(0.2)
        stall.tick(hosts, aimed[stall.name], 250)  # the first write may have got through
        proven(lambda: stall.measure_effect(hosts, aimed[stall.name]))
        error.inject(hosts, aimed[error.name])
        with pytest.raises(NotApplicable):
            loss.inject(hosts, aimed[loss.name])
        for fault in (full, stall, error):
            fault.heal(hosts, aimed[fault.name])
            assert fault.measure_heal(hosts, aimed[fault.name]).confirmed
        assert hosts.disks.free_bytes(1) > 1 << 30
        stall.inject(hosts, aimed[stall.name])
        loss.inject(hosts, aimed[loss.name])
        for fault in (loss, stall):
            fault.heal(hosts, aimed[fault.name])
            assert fault.measure_heal(hosts, aimed[fault.name]).confirmed
        assert target.is_running(1)
        (target.data_dir(1) / "file").write_bytes(b"works")


def test_removing_a_node_ends_its_disk_faults(tmp_path: Path) -> None:
    """A new node with the same number has none of them."""
    with nodes_on(Volume.IMAGE_EXT4, tmp_path, 2) as (target, hosts):
        if throttles.groups():
            hosts.disks.limit(2, bytes_per_s=1000, operations_per_s=0)
        hosts.disks.fill(2)
        hosts.disks.freeze(2)
        hosts.disks.probe(2, "p", 4096)
        target.remove_node(2)
        target.add_node(2)
        assert not hosts.disks.is_limited(2)
        assert hosts.disks.free_bytes(2) > 1 << 30
        (target.data_dir(2) / "file").write_bytes(b"works")
