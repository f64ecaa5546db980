"""Measures the memory that a process keeps of the seeds that it has run.

    python -m tests.tools.simulation_memory --seeds 200

Runs swarm seeds one after the other in this process, judged as a campaign judges them, and prints a
line every 50 seeds. A number that grows from line to line is a leak. A campaign replaces its
processes (`SEEDS_PER_PROCESS`), but should not have to.
"""

import argparse
import gc
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from harness.plans import plan as plans
from harness.simulation.campaign import Task, run_seed

EVERY: Final = 50
STATM: Final = Path("/proc/self/statm")


class Count(NamedTuple):
    """The state after this many seeds."""

    seeds: int
    resident_mb: float
    objects: int


def counts(seeds: range, every: int = EVERY) -> Iterator[Count]:
    """Run swarm seeds of the packaged plan; yield the state after each `every` seeds."""
    plan = plans.build(plans.load("simulation"), where="simulation", flags={})
    with tempfile.TemporaryDirectory(prefix="highwater-memory-") as root:
        task = Task(plan=plan, seeds_are_swarms=True, root=Path(root))
        for number, seed in enumerate(seeds, start=1):
            run_seed(task, seed)
            if number % every == 0:
                yield _count(number)


def _count(seeds: int) -> Count:
    gc.collect()
    pages = int(STATM.read_text().split()[1])
    return Count(seeds, pages * resource.getpagesize() / 1e6, len(gc.get_objects()))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    arguments = parser.parse_args()
    for count in counts(range(1, arguments.seeds + 1)):
        print(
            f"{count.seeds:,} seeds: {count.resident_mb:,.1f} MB resident, "
            f"{count.objects:,} objects",
            flush=True,
        )


if __name__ == "__main__":
    main()
