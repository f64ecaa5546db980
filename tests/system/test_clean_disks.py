"""A harness that dies while disks are broken in every way leaves nothing broken after `clean`."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.targets.clean import clean, undo
from harness.targets.linux.clean import CleanOutcome
from harness.targets.linux.disks import throttles
from nemesis.faults.disk import FAULTS
from tests.support.require import require
from tests.support.targets.machine import leftovers, marked, new_run_id

HARNESS = """
import os, pathlib, random, sys, time
from harness.recording.journal import Journal
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget
from nemesis.faults.disk import FAULTS
from nemesis.faults.fault import Params
from nemesis.fault_state import FaultState
from nemesis.concurrency import ThreadTaskRunner
from types import SimpleNamespace
run_dir, registry = map(pathlib.Path, sys.argv[1:3])
run_id, mark, volume = sys.argv[3:]
journal = Journal.create(run_dir / "journal.jsonl", run_id=run_id, registry=registry)
nodes = range(1, len(FAULTS) + 1)
target = LocalTarget(run_id, run_dir, nodes, journal, volume=Volume(volume))
target.up()
hosts = SimpleNamespace(
    processes=target, disks=target.disks, fault_state=FaultState(), task_runner=ThreadTaskRunner()
)
script = "while :; do echo x >> $0/log/t-0/00000000000000000000.log; sleep 0.01; done #" + mark
for node, fault in zip(nodes, FAULTS):
    (target.data_dir(node) / "log/t-0").mkdir(parents=True)
    (target.data_dir(node) / "log/t-0/00000000000000000000.log").write_bytes(b"log")
    argv = ["bash", "-c", script, str(target.data_dir(node))]
    target.set_command(node, argv, dict(os.environ), run_dir / "log")
    target.start(node)
for node, fault in zip(nodes, FAULTS):
    if fault.needs <= target.abilities:
        given = {"bytes_per_s": "10000"} if fault.name == "disk.slow" else {}
        params = Params.of(fault.options, given)
        fault.inject(hosts, fault.plan_injection([node], nodes, random.Random(node), params))
time.sleep(0.5)
print("ready", flush=True)
time.sleep(1000)
"""


def limits() -> list[str]:
    """Every limit that the kernel has of a loop device that nobody uses: it was left behind."""
    return [
        f"{entry}: {limit}"
        for entry in sorted(Path("/sys/block").glob("loop*"))
        for group in throttles.groups()
        if not (entry / "loop/backing_file").exists()
        and (limit := group.limits((entry / "dev").read_text().strip()))
    ]


@pytest.mark.parametrize("volume", ["image-ext4", "image-xfs"])
def test_a_harness_killed_with_every_disk_broken_is_undone(tmp_path: Path, volume: str) -> None:
    """Frozen, slow, full, read-only, failing, without power, empty, damaged: one node each."""
    require("root", "netns", "loop", *(["xfs"] if volume == "image-xfs" else []))
    registry, run_dir, run_id = tmp_path / "registry", tmp_path / "run", new_run_id()
    registry.mkdir()
    run_dir.mkdir()
    before = limits()
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, run_dir, registry, run_id, f"mark-{run_id}", volume],
        stdout=subprocess.PIPE,
    ) as harness:
        try:
            assert harness.stdout is not None
            assert harness.stdout.readline() == b"ready\n"
            harness.send_signal(signal.SIGKILL)
            harness.wait()
            [cleaned] = clean(registry=registry)
        finally:
            harness.kill()
            again = undo(run_dir / "journal.jsonl", registry=registry)
    assert cleaned.problems == ()
    assert cleaned.outcome is CleanOutcome.UNDONE
    kinds = {what.split(" ")[0] for what in cleaned.removed}
    assert {"volume", "ballast", "process", "namespace", "freeze"} <= kinds
    assert ("limit" in kinds) == bool(throttles.groups())
    assert (again.outcome, again.removed) == (CleanOutcome.UNDONE, ())
    assert leftovers(run_id, run_dir) == []
    assert marked(f"mark-{run_id}") == []
    assert [limit for limit in limits() if limit not in before] == []
    assert len(FAULTS) == len(list(run_dir.glob("nodes/*/data.img")))
