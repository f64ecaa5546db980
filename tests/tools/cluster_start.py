"""Measures how long a cluster for tests takes to start: wall time and CPU seconds.

    python -m tests.tools.cluster_start [--rounds N] [--nodes N] [--imports]

The CPU seconds are user and system time of all processes of the cluster until it can be used. On a
busy machine only they can be compared. `--imports` prints the modules of the process that holds the
cluster which take longest to import instead.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import highwater

TICKS: Final = os.sysconf("SC_CLK_TCK")
SLOWEST: Final = 25
HOLDER: Final = "harness.run.by_hand.for_tests"


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, with its children that have ended, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def children(pid: int) -> list[int]:
    """All processes below a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *children(child)]
    return found


def measure(nodes: int) -> tuple[float, float]:
    """Return the wall time of a start, and its CPU seconds."""
    begun_s = time.monotonic()
    with highwater.cluster(nodes=nodes):
        wall_s = time.monotonic() - begun_s
        return wall_s, sum(cpu_s(pid) for pid in children(os.getpid()))


def print_imports() -> None:
    """Print the modules that take longest, without the modules that they import themselves."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {HOLDER}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines()[1:]]
    own = sorted(((int(row[0]), row[2].strip()) for row in rows), reverse=True)
    print(f"{sum(us for us, _ in own) / 1000:8.1f} ms  {len(own)} modules")
    for us, name in own[:SLOWEST]:
        print(f"{us / 1000:8.1f} ms  {name}")


def main() -> None:
    """Measure, and print a line for each start."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--imports", action="store_true")
    options = parser.parse_args()
    if options.imports:
        print_imports()
        return
    print("  wall s   CPU s")
    for _ in range(options.rounds):
        wall_s, cpu_seconds = measure(options.nodes)
        print(f"{wall_s:8.2f}{cpu_seconds:8.2f}", flush=True)


if __name__ == "__main__":
    main()
