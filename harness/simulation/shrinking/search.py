"""Which of a failing plan can be left out: found by running what is left, in processes.

A candidate fails the same way when it shows the sign of the first failure: the same kind of
forbidden anomaly, or the same invariant broken. An anomaly is preferred, since clients see it, so
that real processes can show it too; an invariant is taken where clients see nothing. Leaving
something out shifts everything random that comes after it, so each candidate has a few seeds; the
one that shows the sign becomes the plan's.
The candidates of a step are run some at a time, and the boldest that fails is taken, so that the
result does not depend on how many there are at a time.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from harness.plan import Plan
from harness.simulation.campaign import INVALID, Result, Task, run_seed
from harness.simulation.shrinking.steps import STEPS, Step, around, size

NS, MS = 1_000_000_000, 1_000_000
SEEDS: Final = 3
"""Tries of a candidate: its plan's own seed, and the next ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A plan that fails, with its seed, and what it shows."""

    plan: Plan
    signs: tuple[str, ...]
    """The gravest first."""
    reason: str
    visible: bool = True
    """Clients see it; found without looking at the nodes' own state."""
    at_ms: int | None = None
    """When it happened, in ms since the chaos began, if that is known."""


Find = Callable[[Plan, Sequence[int], str | None, bool, float], Failure | None]
"""Plan, seeds, sign, whether clients are to see it, and until when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """What the search came to."""

    failure: Failure
    tried: int
    seconds: float
    finished: bool
    """Nothing more can be left out; or else time was up."""


def failure_of(
    plan: Plan,
    seeds: Sequence[int],
    sign: str | None = None,
    visible: bool = True,
    until_s: float = inf,
) -> Failure | None:
    """The first of the seeds with which the plan fails, by showing `sign` if one is given.

    None is begun after `until_s` on the monotonic clock, which all processes share.
    """
    root = Path(tempfile.mkdtemp(prefix="highwater-shrink-"))
    try:
        for seed in seeds:
            if time.monotonic() > until_s:
                break
            task = Task(plan=plan, root=root, invariants=not visible)
            result = run_seed(task, seed)
            if result.outcome == INVALID and (sign is None or sign in result.signs):
                found = plan.model_copy(update={"seed": seed})
                return Failure(
                    plan=found,
                    signs=result.signs,
                    reason=result.reasons[0],
                    visible=visible,
                    at_ms=_when(result, sign or result.signs[0]),
                )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return None


def _when(result: Result, sign: str) -> int | None:
    """When the first operation that shows the sign ended, or the run, where an invariant did."""
    if result.run is None:
        return None
    said = map(json.loads, (result.run / "simulation.jsonl").read_text().splitlines())
    chaos_ns = next((e["at_ns"] for e in said if e.get("phase") == "chaos"), 0)
    ended_ns = [round(result.simulated_s * NS)]
    verdict = result.run / "verdict.json"
    if verdict.exists():
        found = [a for a in json.loads(verdict.read_text())["anomalies"] if a["kind"] == sign]
        examples = [e for a in found if a["judgement"] == "forbidden" for e in a["examples"]]
        ended_ns += [ns for e in examples if (ns := e.get("complete_ns")) is not None]
    return max(0, (min(ended_ns) - chaos_ns) // MS)


def first_failure(plan: Plan, seeds: Sequence[int]) -> Failure | None:
    """What is to be reduced: a failure that clients see, or else one that only the nodes show."""
    return failure_of(plan, seeds) or failure_of(plan, seeds, visible=False)


def processes(jobs: int) -> Executor:
    """So many of them, each from the beginning: what ran before must not show in a run."""
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))


@dataclass(slots=True, kw_only=True)
class Search:
    """Shrinks one failure. `told` hears of every smaller plan that fails."""

    failure: Failure
    until_s: float
    """On the monotonic clock."""
    jobs: int
    told: Callable[[Failure], None]
    find: Find = failure_of
    """Goes to the pool's processes; says whether a plan fails."""
    pool: Callable[[int], Executor] = processes
    sign: str = field(init=False)
    _known: set[str] = field(default_factory=set)
    _tried: int = 0

    def __post_init__(self) -> None:
        self.sign = self.failure.signs[0]

    def run(self) -> Shrunk:
        """Until nothing more can be left out, or time is up."""
        began_s = time.monotonic()
        with self.pool(self.jobs) as pool:
            helped = True
            while helped and self._goes_on():
                helped = sum(self._exhaust(step, pool) for step in (self._around, *STEPS)) > 0
        return Shrunk(
            failure=self.failure,
            tried=self._tried,
            seconds=time.monotonic() - began_s,
            finished=self._goes_on(),
        )

    def _around(self, plan: Plan) -> Iterator[Plan]:
        at_ms = self.failure.at_ms
        return iter(()) if at_ms is None else around(plan, at_ms)

    def _goes_on(self) -> bool:
        return time.monotonic() < self.until_s

    def _exhaust(self, step: Step, pool: Executor) -> bool:
        """Take the step as long as it leads to anything; whether it did."""
        helped = False
        while self._goes_on():
            found = self._first(step, pool)
            if found is None:
                break
            helped, self.failure = True, found
            self.told(found)
        return helped

    def _first(self, step: Step, pool: Executor) -> Failure | None:
        """The first candidate that fails the same way."""
        waiting = self._new(step(self.failure.plan))
        same_way = self.sign, self.failure.visible, self.until_s
        while self._goes_on():
            batch = list(islice(waiting, self.jobs))
            if not batch:
                return None
            self._tried += len(batch)
            tries = [
                pool.submit(self.find, plan, range(plan.seed, plan.seed + SEEDS), *same_way)
                for plan in batch
            ]
            found = next((f for each in tries if (f := each.result()) is not None), None)
            if found is not None:
                return found
        return None

    def _new(self, plans: Iterator[Plan]) -> Iterator[Plan]:
        """Those that are smaller and have not been tried."""
        for plan in plans:
            key = json.dumps(plan.to_json(), sort_keys=True)
            if key not in self._known and size(plan) < size(self.failure.plan):
                self._known.add(key)
                yield plan
