"""Compares the guided search with the swarm, at the same processor time: states of decisions
reached, and seeds until a mutant of the zoo is found.

    python -m tests.tools.search_comparison --cpu-s 200 --searches 3
    python -m tests.tools.search_comparison --cpu-s 300 --mutants counts_zombies serves_zombies

Each search has its own seeds. With mutants, a search ends at its first INVALID seed.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from harness.plans import plan as plans
from harness.simulation.campaign import INVALID, Campaign, Result, Seeds, Source, Task
from harness.simulation.decisions.reached import State
from harness.simulation.guided.search import GuidedSearch

SEARCH_SEEDS: Final = 1_000_000
"""How far apart the seeds of two searches are."""
SOURCES: Final[dict[str, Callable[[Task, range], Source]]] = {
    "swarm": Seeds,
    "guided": GuidedSearch,
}


class Searched(NamedTuple):
    """The end of a search. cpu_s: its runs' processor time. found: the last seed was INVALID."""

    seeds: int
    cpu_s: float
    states: int
    found: bool


def results(source: Source, jobs: int, cpu_s: float) -> Iterator[Result]:
    """Yield results until their processor time is used up."""
    used_s = 0.0
    campaign = Campaign(source, jobs=jobs)
    for result in campaign.results():
        used_s += result.cpu_s
        if used_s <= cpu_s:
            yield result
        else:
            campaign.stop()


def search(kind: str, task: Task, first: int, jobs: int, cpu_s: float, *, until: bool) -> Searched:
    """Search until the time is used up; with `until`, at most to the first INVALID seed."""
    numbers = range(first, first + SEARCH_SEEDS)
    states: set[State] = set()
    seeds, used_s = 0, 0.0
    found = results(SOURCES[kind](task, numbers), jobs, cpu_s)
    for result in found:
        seeds, used_s = seeds + 1, used_s + result.cpu_s
        states |= result.states.keys()
        if until and result.outcome == INVALID:
            return Searched(seeds, used_s, len(states), found=True)
    return Searched(seeds, used_s, len(states), found=False)


def main() -> None:
    """Print each search, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-s", type=float, default=200.0, help="processor time of a search")
    parser.add_argument("--searches", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--mutants", nargs="*", default=[], help="of the zoo, by name")
    given = parser.parse_args()
    plan = plans.build(plans.load("simulation"), where="comparison", flags={})
    with tempfile.TemporaryDirectory() as folder:
        task = Task(plan=plan, seeds_are_swarms=True, root=Path(folder), coverage=True)
        for mutant in given.mutants or [None]:
            wanted = task if mutant is None else _broken(task, mutant)
            for kind in SOURCES:
                ended = [
                    search(
                        kind, wanted, 1 + number * SEARCH_SEEDS, given.jobs, given.cpu_s,
                        until=mutant is not None,
                    )
                    for number in range(given.searches)
                ]  # fmt: skip
                print(f"{mutant or 'unmodified'}, {kind}: {_text(ended)}", flush=True)


def _broken(task: Task, mutant: str) -> Task:
    module = f"harness.zoo.mutants.{mutant}"
    return replace(task, plan=task.plan.model_copy(update={"broker_module": module}))


def _text(ended: Sequence[Searched]) -> str:
    if not any(each.found for each in ended):
        counts = [f"{each.states:,} states by {each.seeds} seeds" for each in ended]
        return f"{', '.join(counts)}; median {median(each.states for each in ended):,} states"
    counts = [
        f"{'' if each.found else 'not within '}{each.seeds} seeds ({each.cpu_s:.0f} s)"
        for each in ended
    ]
    return ", ".join(counts)


if __name__ == "__main__":
    main()
