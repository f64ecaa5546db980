"""What tests ask of the machine itself: what of a run is there, and a run of their own."""

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
"""How long a process may take to load libfaketime; its number comes again only later."""


def leftovers(run_id: str, run_dir: Path) -> list[str]:
    """Everything of the run that the kernel still has: empty when it was undone."""
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
    """What libfaketime made in the process, and not in one that had its number before or after."""
    started_s = process.start_ticks / os.sysconf("SC_CLK_TCK")
    since_boot_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return [
        path
        for path in clocks.shared_memory_of(process.pid)
        if -1.0 < path.stat().st_mtime - since_boot_s - started_s < _LOADED_S
    ]


def limits() -> list[str]:
    """Every limit that the kernel has of a loop device that nobody uses: it was left behind."""
    return [
        f"{entry}: {limit}"
        for entry in sorted(Path("/sys/block").glob("loop*"))
        for group in throttles.groups()
        if not (entry / "loop/backing_file").exists()
        and (limit := group.limits((entry / "dev").read_text().strip()))
    ]


def marked(mark: str) -> list[int]:
    """The living processes whose command line holds `mark`."""
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
    """A run of its own for every test: several test runs may share the machine."""
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
    """A target that is up, and afterwards down; its run directory and registry are in `place`."""
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
