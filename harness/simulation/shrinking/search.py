"""Finds by running, in processes, which parts of a failing plan can be left out.

A candidate fails the same way if it shows the sign of the first failure: the same kind of forbidden
anomaly, or the same broken invariant. An anomaly is preferred, because clients see it, so real
processes can show it too; an invariant is used if clients see nothing. Leaving a part out shifts
all random draws after it; so each candidate gets a few seeds in the end, and the seed that shows
the sign becomes the plan's.

Some candidates of a step run at the same time, and the largest reduction that fails is taken: the
result does not depend on the number of processes.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from harness.plans.plan import Plan
from harness.simulation import workers
from harness.simulation.shrinking.steps import STEPS, Step, around, size
from harness.simulation.shrinking.trial import Failure, failure_of

SEEDS: Final = (1, 3)
"""How many seeds a candidate gets, beginning with the plan's own: few while much can be left out at
once, more when nothing else can be left out and runs are short."""


Find = Callable[[Plan, Sequence[int], str | None, bool, float], Failure | None]
"""Arguments: plan, seeds, sign, whether clients must see the failure, and a deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The result of the search."""

    failure: Failure
    tried: int
    seconds: float
    finished: bool
    """Whether nothing more can be left out; false if time ran out."""


@dataclass(slots=True, kw_only=True)
class Search:
    """Shrinks one failure. `on_progress` is called with each smaller plan that fails."""

    failure: Failure
    until_s: float
    """The deadline on the monotonic clock."""
    jobs: int
    on_progress: Callable[[Failure], None]
    find: Find = failure_of
    """Decides whether a plan fails; runs in the pool's processes."""
    pool: Callable[[int], Executor] = workers.pool
    sign: str = field(init=False)
    _seeds: int = SEEDS[0]
    _seeds_of: dict[str, int] = field(default_factory=dict)
    """How many seeds each candidate has had."""
    _tried: int = 0

    def __post_init__(self) -> None:
        self.sign = self.failure.signs[0]

    def run(self) -> Shrunk:
        """Search until nothing more can be left out, or time is up."""
        began_s = time.monotonic()
        with self.pool(self.jobs) as pool:
            for self._seeds in SEEDS:
                helped = True
                while helped and self._time_left():
                    helped = sum(self._exhaust(step, pool) for step in (self._around, *STEPS)) > 0
        return Shrunk(
            failure=self.failure,
            tried=self._tried,
            seconds=time.monotonic() - began_s,
            finished=self._time_left(),
        )

    def _around(self, plan: Plan) -> Iterator[Plan]:
        at_ms = self.failure.at_ms
        return iter(()) if at_ms is None else around(plan, at_ms)

    def _time_left(self) -> bool:
        return time.monotonic() < self.until_s

    def _exhaust(self, step: Step, pool: Executor) -> bool:
        """Repeat the step while it succeeds; return whether it ever did."""
        helped = False
        while self._time_left():
            found = self._first(step, pool)
            if found is None:
                break
            helped, self.failure = True, found
            self.on_progress(found)
        return helped

    def _first(self, step: Step, pool: Executor) -> Failure | None:
        """Return the first candidate that fails the same way."""
        waiting = self._new(step(self.failure.plan))
        same_way = self.sign, self.failure.visible, self.until_s
        while self._time_left():
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
        """Yield the smaller candidates, with the seeds that have not been tried."""
        for plan in plans:
            key = json.dumps(plan.to_json(), sort_keys=True)
            had = self._seeds_of.get(key, 0)
            if had < self._seeds and size(plan) < size(self.failure.plan):
                self._seeds_of[key] = self._seeds
                yield plan, range(plan.seed + had, plan.seed + self._seeds)
