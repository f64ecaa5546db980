"""Check that many runs leave nothing on the machine: `python -m tests.tools.run_cycles`.

Each cycle makes machines with their own disks and wall clocks, starts processes on them, makes as
many faults as the machine allows, and removes everything while they are in force. The resources of
the machine and of this process are counted before and after.
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
from nemesis.hosts import Cut, LinkQuality
from tests.support.targets.machine import leftovers, limits, new_run_id

SETTLED: Final = 5
"""Cycles before the first count: modules and caches that are filled once are no leak."""
PRINT_EVERY: Final = 20
"""The counts are printed after so many cycles."""
MEMORY_KB: Final = 4096
"""Allowed growth of memory in total: thread arenas, caches of libraries."""
MEMORY_KB_EACH: Final = 20
"""Allowed growth of memory per cycle."""


def cycle(place: Path) -> list[str]:
    """Make one run and return its leftovers."""
    run_dir, registry, run_id = place / "run", place / "registry", new_run_id()
    for path in (run_dir, registry):
        path.mkdir()
    with Journal.create(run_dir / "journal.jsonl", run_id=run_id, registry=registry) as journal:
        target = LocalTarget(run_id, run_dir, [1, 2, 3], journal, uplink=True, clocks=True)
        try:
            target.up()
            use(target, run_dir)
        finally:
            target.down()
            journal.finish()
    return [*leftovers(run_id, run_dir), *map(str, journals.registered(registry))]


def use(target: LocalTarget, run_dir: Path) -> None:
    """Start processes, and make as many faults as the target allows."""
    for node in target.node_ids():
        env = {"PATH": os.environ["PATH"]}
        target.set_command(node, ["sleep", "1000"], env, run_dir / "log")
        target.start(node)
    target.spawn_client(["sleep", "1000"])
    target.links.block(Cut(1, 2))
    abilities = target.abilities
    if "link-quality" in abilities:
        target.links.degrade([(2, 1)], LinkQuality(delay_ms=10), "layer")
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
    """Count the resources of this process, and those that it has on the machine."""
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
    """Return the counts before and after, and the leftovers."""
    left: list[str] = []
    before: Mapping[str, int] = {}
    home = Path("/proc/thread-self/ns/net").readlink()
    for number in range(SETTLED + cycles):
        if number == SETTLED:
            before = counted()
        with tempfile.TemporaryDirectory(prefix="highwater-cycles-") as place:
            left += cycle(Path(place))
        if number % PRINT_EVERY == 0:
            print(f"cycle {number - SETTLED}: {counted()}", file=sys.stderr, flush=True)
    if Path("/proc/thread-self/ns/net").readlink() != home:
        left.append("this thread is in another network namespace than before")
    return before, counted(), left


def grown(before: Mapping[str, int], after: Mapping[str, int], cycles: int) -> list[str]:
    """Return the resources that have grown; memory may grow a little."""
    allowed = {"memory_kb": MEMORY_KB + MEMORY_KB_EACH * cycles}
    return [
        f"{name}: {before[name]} before, {after[name]} after"
        for name in before
        if after[name] > before[name] + allowed.get(name, 0)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the counts; return 1 when something is left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=200)
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that `finally` runs
    before, after, left = run(options.cycles)
    print(f"{options.cycles} cycles with {volumes.best_volume()}")
    for name in before:
        print(f"{name:12} {before[name]:8} before {after[name]:8} after")
    wrong = [*left, *grown(before, after, options.cycles)]
    print("\n".join(wrong) or "nothing is left")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
