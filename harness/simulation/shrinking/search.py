"""Which of a failing plan can be left out: found by running what is left, in processes.

A candidate fails the same way when it shows the sign of the first failure: the same kind of
forbidden anomaly, or the same invariant broken. An anomaly is preferred, since clients see it, so
that real processes can show it too; an invariant is taken where clients see nothing. Leaving
something out shifts everything random that comes after it, so each candidate has a few seeds in the
end; the one that shows the sign becomes the plan's.
The candidates of a step are run some at a time, and the boldest that fails is taken, so that the
result does not depend on how many there are at a time.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from typing import Final

from harness.plans.plan import Plan
from harness.simulation.shrinking.steps import STEPS, Step, around, size
from harness.simulation.shrinking.trial import Failure, failure_of

SEEDS: Final = (1, 3)
"""How many seeds a candidate has, the plan's own and the next ones: few while much can be left out
at once, more when nothing else can be and runs are short."""


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
    _seeds: int = SEEDS[0]
    _seeds_of: dict[str, int] = field(default_factory=dict)
    """How many seeds a candidate has had."""
    _tried: int = 0

    def __post_init__(self) -> None:
        self.sign = self.failure.signs[0]

    def run(self) -> Shrunk:
        """Until nothing more can be left out, or time is up."""
        began_s = time.monotonic()
        with self.pool(self.jobs) as pool:
            for self._seeds in SEEDS:
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
            tries = [pool.submit(self.find, plan, seeds, *same_way) for plan, seeds in batch]
            found = next((f for each in tries if (f := each.result()) is not None), None)
            if found is not None:
                return found
        return None

    def _new(self, plans: Iterator[Plan]) -> Iterator[tuple[Plan, range]]:
        """Those that are smaller, with the seeds that have not been tried."""
        for plan in plans:
            key = json.dumps(plan.to_json(), sort_keys=True)
            had = self._seeds_of.get(key, 0)
            if had < self._seeds and size(plan) < size(self.failure.plan):
                self._seeds_of[key] = self._seeds
                yield plan, range(plan.seed + had, plan.seed + self._seeds)
