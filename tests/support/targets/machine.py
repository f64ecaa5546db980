"""Find a run's leftovers on the machine, and make a local target for a test."""

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.recording import journal as journals
from harness.recording.journal import Journal
from harness.targets.linux import clocks, kernel, processes
from harness.targets.linux.disks import throttles
from harness.targets.linux.disks.volumes import Volume
from harness.targets.linux.network import namespaces, network
from harness.targets.linux.processes import ProcessId
from harness.targets.linux.undo import process_of
from harness.targets.local import LocalTarget

_LOADED_S: Final = 60.0
"""How long a process may take to load libfaketime; its pid is reused only later."""


def leftovers(run_id: str, run_dir: Path) -> list[str]:
    """Return all kernel objects of the run that still exist."""
    prefix = network.plan(run_id, [1]).name
    spaces = sorted(namespaces.netns_dir().glob(f"{prefix}-*"))
    links = sorted(Path("/sys/class/net").glob(f"{prefix}*"))
    mounts = [
        line.split()[4]
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if str(run_dir.resolve()) in line or prefix in line
    ]
    loops = [
        loop for image in sorted(run_dir.rglob("data.img")) for loop in kernel.loops_over(image)
    ]
    inside = [pid for path in spaces for pid in namespaces.processes_in(path)]
    wall_clocks = sorted((run_dir / "clocks").glob("*"))
    ballast = sorted(run_dir.rglob(".highwater-ballast"))
    shared = [
        path
        for record in journals.read(run_dir / "journal.jsonl")
        if record["kind"] == "local.process"
        for path in _shared_by(process_of(record))
    ]
    found = (*spaces, *links, *mounts, *loops, *inside, *wall_clocks, *ballast, *shared)
    return [str(each) for each in found]


def _shared_by(process: ProcessId) -> list[Path]:
    """Return libfaketime's files of the process, but not of others with the same pid."""
    started_s = process.start_ticks / os.sysconf("SC_CLK_TCK")
    since_boot_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return [
        path
        for path in clocks.shared_memory_of(process.pid)
        if -1.0 < path.stat().st_mtime - since_boot_s - started_s < _LOADED_S
    ]


def limits() -> list[str]:
    """Return the limits of unused loop devices, which were left behind."""
    return [
        f"{entry}: {limit}"
        for entry in sorted(Path("/sys/block").glob("loop*"))
        for group in throttles.groups()
        if not (entry / "loop/backing_file").exists()
        and (limit := group.limits((entry / "dev").read_text().strip()))
    ]


def marked(mark: str) -> list[int]:
    """Return the running processes whose command line contains `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        seen = processes.stat(int(entry.name))
        if mark.encode() in command and seen is not None and seen.state != "Z":
            found.append(int(entry.name))
    return found


def new_run_id() -> str:
    """Return a new run id: several test runs may share the machine."""
    return uuid.uuid4().hex


@contextmanager
def local_target(
    place: Path,
    nodes: int = 1,
    volume: Volume = Volume.DIRECTORY,
    *,
    uplink: bool = False,
    subnet: str | None = None,
    clocks: bool = False,
) -> Iterator[LocalTarget]:
    """Start a target, and take it down after the block; its files are in `place`."""
    registry, run_dir, run_id = place / "registry", place / "run", new_run_id()
    registry.mkdir()
    run_dir.mkdir()
    with Journal.create(run_dir / "journal.jsonl", run_id=run_id, registry=registry) as journal:
        target = LocalTarget(
            run_id,
            run_dir,
            range(1, nodes + 1),
            journal,
            volume=volume,
            uplink=uplink,
            subnet=subnet,
            clocks=clocks,
        )
        try:
            target.up()
            yield target
        finally:
            target.down()
            journal.finish()
    assert leftovers(run_id, run_dir) == []
