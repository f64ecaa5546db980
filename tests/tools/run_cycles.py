"""Many runs after each other leave the machine as it was: `python -m tests.tools.run_cycles`.

Each cycle makes machines with disks of their own and wall clocks, starts processes on them, cuts,
delays, freezes, fills, slows and skews what it can, and takes everything down while that is in
force. What the machine and this process have is counted before and after.
"""

import argparse
import gc
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.recording import journal as journals
from harness.recording.journal import Journal
from harness.targets.linux.disks import volumes
from harness.targets.local import LocalTarget
from nemesis.hosts import Cut, Quality
from tests.support.targets.machine import leftovers, limits, new_run_id

SETTLED: Final = 5
"""Cycles before the first count: what is imported or cached once is no leak."""
TOLD: Final = 20
"""How often the counts are told on the way."""
MEMORY_KB: Final = 4096
"""How much memory may grow at first: the arenas of the threads, caches of the libraries."""
MEMORY_KB_EACH: Final = 20
"""And by every cycle."""


def cycle(place: Path) -> list[str]:
    """One run; what is left of it."""
    run_dir, registry, run_id = place / "run", place / "registry", new_run_id()
    for path in (run_dir, registry):
        path.mkdir()
    with Journal.create(run_dir / "journal.jsonl", run_id=run_id, registry=registry) as journal:
        target = LocalTarget(run_id, run_dir, [1, 2, 3], journal, uplink=True, clocks=True)
        try:
            target.up()
            busy(target, run_dir)
        finally:
            target.down()
            journal.finish()
    return [*leftovers(run_id, run_dir), *map(str, journals.registered(registry))]


def busy(target: LocalTarget, run_dir: Path) -> None:
    """Run processes, and break as much as there is."""
    for node in target.node_ids():
        env = {"PATH": os.environ["PATH"]}
        target.set_command(node, ["sleep", "1000"], env, run_dir / "log")
        target.start(node)
    target.spawn_client(["sleep", "1000"])
    target.links.block(Cut(1, 2))
    abilities = target.abilities
    if "link-quality" in abilities:
        target.links.degrade([(2, 1)], Quality(delay_ms=10), "layer")
    if "disk-speed" in abilities:
        target.disks.limit(3, bytes_per_s=1_000_000, operations_per_s=0)
    if "disk-faults" in abilities:
        target.disks.fill(2)
    if "disk-stalls" in abilities:
        target.disks.freeze(1)
        target.disks.probe(1, "probe", 4096)
    if "clocks" in abilities:
        target.clocks.skew(1, "layer", 60_000)
    target.pause(2)
    target.kill(3)


def counted() -> dict[str, int]:
    """What this process has, and what the machine has of this process's."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    children = Path("/proc/thread-self/children").read_text().split()
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "children": len(children),
        "limits": len(limits()),
        "cgroups": sum(1 for _ in Path("/sys/fs/cgroup").rglob("cgroup.procs")),
        "memory_kb": int(status["VmRSS"].split()[0]),
    }


def run(cycles: int) -> tuple[Mapping[str, int], Mapping[str, int], Sequence[str]]:
    """The counts before and after, and what the cycles left."""
    left: list[str] = []
    before: Mapping[str, int] = {}
    home = Path("/proc/thread-self/ns/net").readlink()
    for number in range(SETTLED + cycles):
        if number == SETTLED:
            before = counted()
        with tempfile.TemporaryDirectory(prefix="highwater-cycles-") as place:
            left += cycle(Path(place))
        if number % TOLD == 0:
            print(f"cycle {number - SETTLED}: {counted()}", file=sys.stderr, flush=True)
    if Path("/proc/thread-self/ns/net").readlink() != home:
        left.append("this thread is in another network namespace than before")
    return before, counted(), left


def grown(before: Mapping[str, int], after: Mapping[str, int], cycles: int) -> list[str]:
    """What there is more of than before, memory apart from a little."""
    allowed = {"memory_kb": MEMORY_KB + MEMORY_KB_EACH * cycles}
    return [
        f"{name}: {before[name]} before, {after[name]} after"
        for name in before
        if after[name] > before[name] + allowed.get(name, 0)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the counts; 1 when something is left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=200)
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to take everything down then too
    before, after, left = run(options.cycles)
    print(f"{options.cycles} cycles with {volumes.best_volume()}")
    for name in before:
        print(f"{name:12} {before[name]:8} before {after[name]:8} after")
    wrong = [*left, *grown(before, after, options.cycles)]
    print("\n".join(wrong) or "nothing is left")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
