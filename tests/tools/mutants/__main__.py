"""Counts which automatic mutants of the broker's decisions are found by tests, by invariants, and
by what clients see.

`python -m tests.tools.mutants --sample 60 --seeds 40` draws mutants at random, so that the share is
that of all. Survivors are printed one by one: each is equivalent, or a rule, a draw or a test is
missing. `--only MODULE:NUMBER` tries one.
"""

import argparse
import contextlib
import json
import math
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from harness.simulation.campaign import Campaign, Seeds, Task
from harness.simulation.decisions import catalogue, mutations, reached
from harness.simulation.decisions.mutations import Mutation
from harness.simulation.decisions.probes import Probe
from tests.tools.mutants.baselines import Baseline
from tests.tools.mutants.table import table
from tests.tools.mutants.trial import Tried, task, try_clients, try_mutant
from tests.tools.mutants.unit_tests import UnitTests


def main() -> None:
    """Try the mutants, and print what found them."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=60, help="how many mutants")
    parser.add_argument("--draw", type=int, default=1, help="the seed that draws the sample")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first of the sample")
    parser.add_argument("--seeds", type=int, default=40, help="simulated seeds per mutant, from 1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="*", default=[], metavar="MODULE:NUMBER")
    parser.add_argument(
        "--json",
        type=Path,
        help="write the results to this file; mutants in it are not tried again",
    )
    parser.add_argument(
        "--reached",
        type=Path,
        help="which tests reach which function: read from this file, or written if it is missing",
    )
    parser.add_argument(
        "--to-first",
        action="store_true",
        help="run no seeds for a mutant that a test finds",
    )
    parser.add_argument("--first", type=int, help="how many of the seeds a mutant meets at most")
    parser.add_argument("--clients", action="store_true", help="only what clients see")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin none after these")
    given = parser.parse_args()
    until_s = time.monotonic() + 60 * given.minutes
    drawn = [*map(mutations.named, given.only)] or sample(given.sample, given.draw)
    chosen = drawn[given.skip :]
    stored = map(Tried.from_json, _stored(given.json))
    tried = [each for each in stored if each.mutation in chosen]
    done = {each.mutation for each in tried}
    left = [each for each in chosen if each not in done]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        root = Path(folder)
        wanted = task(root, invariants=not given.clients, coverage=True)
        baselines = unmodified(range(1, given.seeds + 1), wanted, given.jobs)
        if given.clients:
            try_one = partial(try_clients, baselines=baselines, root=root, first=given.first)
        else:
            tests = UnitTests.measured(given.reached or root / "reached.json")
            stack.callback(tests.close)
            try_one = partial(
                try_mutant, tests=tests, baselines=baselines, root=root, to_first=given.to_first,
                first=given.first,
            )  # fmt: skip
        for each in trials(left, try_one, given.jobs, until_s):
            tried.append(each)
            print(f"{len(tried)}/{len(chosen)} {line(each)}", flush=True)
            if given.json is not None:
                given.json.write_text(json.dumps([asdict(each) for each in tried], indent=1))
    print(table(tried))


def _stored(path: Path | None) -> list[dict[str, Any]]:
    """Return the results of a file; none if there is no file yet."""
    return json.loads(path.read_text()) if path is not None and path.exists() else []


def sample(count: int, draw: int) -> list[Mutation]:
    """Return as many mutants, each as likely as any other."""
    every = [each for module in catalogue.NAMES for each in mutations.mutations(module)]
    return random.Random(draw).sample(every, min(count, len(every)))


def unmodified(seeds: range, wanted: Task, jobs: int) -> list[Baseline]:
    """Return the seeds on the unmodified broker. `wanted` has coverage."""
    places = reached.functions()
    found = [
        Baseline(
            each.seed,
            each.digest,
            each.outcome,
            frozenset(places[number] for number, _ in each.states),
            _outcomes(each.states),
        )
        for each in Campaign(Seeds(wanted, seeds), jobs=jobs).results()
    ]
    return sorted(found)


def _outcomes(states: Iterable[reached.State]) -> frozenset[Probe]:
    found = reached.Reached()
    found.add(states)
    return frozenset(found.outcomes())


def trials(
    chosen: Sequence[Mutation],
    try_one: Callable[[Mutation], Tried],
    jobs: int,
    until_s: float = math.inf,
) -> Iterator[Tried]:
    """Yield what found each mutant, as they end. None begins after `until_s` (monotonic)."""

    def in_time(mutation: Mutation) -> Tried | None:
        return try_one(mutation) if time.monotonic() < until_s else None

    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(in_time, each) for each in chosen]
        for future in as_completed(running):
            if (tried := future.result()) is not None:
                yield tried


def line(tried: Tried) -> str:
    """Return one mutant for people."""
    seen = [
        f"tests: {tried.tests}" if tried.tests else "",
        "invariants: seed {}, {}".format(*tried.invariants) if tried.invariants else "",
        "clients: seed {}, {}".format(*tried.clients) if tried.clients else "",
    ]
    where = f"{tried.changed} of {tried.reached} seeds that reach it differ"
    return f"{tried.mutation.name} {'; '.join(filter(None, seen)) or 'NOT FOUND'} ({where})"


if __name__ == "__main__":
    main()
