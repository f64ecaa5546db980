"""How often the checkers name the true cause of a lost write.

    python -m tests.tools.cause_oracle --seeds 1..500

Runs swarm seeds of the packaged plan `simulation` (or, with --plain, the plan itself), compares the
cause of every lost write with the truth in the simulated world, and prints the shares by acks. Exit
code 1 when a cause is wrong; --show lists the losses of one agreement.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from harness.plans import plan as plans
from harness.simulation import summary
from harness.simulation.campaign import Task, prepared
from tests.tools.cause_oracle.comparing import Agreement, Compared, compare, shares

AGREEMENTS = tuple(Agreement)


def compared(seed: int, *, swarm: bool) -> list[Compared]:
    """The lost writes of a seed."""
    plan = plans.build(plans.load("simulation"), where="simulation", flags={})
    task = Task(plan=plan, seeds_are_swarms=swarm, root=Path())
    return compare(prepared(task, seed))


def _attempt(seed: int, swarm: bool) -> tuple[int, list[Compared], str]:
    try:
        return seed, compared(seed, swarm=swarm), ""
    except Exception as error:
        return seed, [], f"{type(error).__name__}: {error}"


def _all(
    seeds: Sequence[int], jobs: int, *, swarm: bool
) -> Iterator[tuple[int, list[Compared], str]]:
    if jobs == 1:
        yield from (_attempt(seed, swarm) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=50) as pool:
        yield from pool.map(_attempt, seeds, [swarm] * len(seeds))


def table(found: list[Compared]) -> str:
    """The shares by acks."""
    lines = [f"{'acks':>4} {'lost':>6} " + " ".join(f"{name:>16}" for name in AGREEMENTS)]
    for acks, counts in shares(found).items():
        total = sum(counts.values())
        cells = (f"{counts[n]:>8,} {counts[n] / max(1, total):>6.1%}" for n in AGREEMENTS)
        name = "all" if acks == -1 else str(acks)
        lines.append(f"{name:>4} {total:>6,} " + " ".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1..20", help="A..B")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--plain", action="store_true", help="the plan itself, not its swarm")
    parser.add_argument("--show", type=Agreement, action="append", help="list losses of this kind")
    arguments = parser.parse_args(argv)
    found: list[Compared] = []
    began_s = time.process_time()
    seeds = summary.seeds(arguments.seeds)
    losing = 0
    for seed, mine, failure in _all(seeds, arguments.jobs, swarm=not arguments.plain):
        if failure:
            print(f"seed {seed}: not compared: {failure}", flush=True)
        losing += bool(mine)
        found += mine
        for each in mine:
            if each.agreement in (arguments.show or [Agreement.WRONG]):
                print(each.line(), flush=True)
    took_s = time.process_time() - began_s
    print(f"{len(seeds)} seeds, {losing} of which lost acknowledged writes; {took_s:.0f} s")
    print(table(found))
    return 1 if any(each.agreement is Agreement.WRONG for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
