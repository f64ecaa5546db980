"""What a process keeps of the seeds that it has run: its memory, now and then.

    python -m tests.tools.simulation_memory --seeds 200

Swarm seeds, one after the other in this process, judged as a campaign judges them; a line every 50
seeds. What grows from line to line is kept by somebody. A campaign replaces its processes now and
then (`SEEDS_PER_PROCESS`), and needs not to.
"""

import argparse
import gc
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from harness.plans import plan as plans
from harness.simulation.campaign import Task, in_this_process

EVERY: Final = 50
STATM: Final = Path("/proc/self/statm")


class Count(NamedTuple):
    """What there was after so many seeds."""

    seeds: int
    resident_mb: float
    objects: int


def counts(seeds: range, every: int = EVERY) -> Iterator[Count]:
    """Run the seeds of the packaged plan's swarm; what there was after each `every`."""
    plan = plans.build(plans.load("simulation"), where="simulation", flags={})
    with tempfile.TemporaryDirectory(prefix="highwater-memory-") as root:
        task = Task(plan=plan, seeds_are_swarms=True, root=Path(root))
        for number, _ in enumerate(in_this_process(task, seeds), start=1):
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
