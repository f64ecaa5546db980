"""A campaign that learns: most candidates are earlier plans that reached something new,
changed.

Candidates come in rounds. All of a round are made from what the rounds before have reached, each by
its own number. So the candidates do not depend on the number of processes, and a search of N is the
beginning of every longer one.
"""

import random
from dataclasses import replace
from typing import Final

from harness.plans.plan import PlanError
from harness.simulation import later_draws, swarm, workload_draws
from harness.simulation.campaign import FAILED, INVALID, Candidate, Result, Task, prepared
from harness.simulation.guided.corpus import Corpus
from harness.simulation.guided.draft import Draft
from harness.simulation.guided.mutate import continued, mutated
from nemesis.base import NemesisError

ROUND: Final = 24
"""How many candidates are made at a time."""
FRESH: Final = 0.25
"""The share of candidates that a swarm's seed draws; of the first round all."""
CONTINUED: Final = 0.5
"""The share of candidates that go on otherwise from a rare state. The rest changes anything."""
FITTING: Final = (
    swarm.followers_keep_up,
    workload_draws.members_stay,
    later_draws.producers_stay_known,
)
"""What holds for the settings of each plan that a swarm draws."""


class GuidedSearch:
    """Makes candidates from a task for swarms, and learns from their results."""

    def __init__(self, task: Task, numbers: range) -> None:
        self.corpus = Corpus()
        self._task = replace(task, seeds_are_swarms=True, coverage=True)
        self._numbers = numbers
        self._waiting: list[Candidate] = []
        self._made: dict[int, Draft] = {}
        self._results: dict[int, Result] = {}
        self._next = numbers.start

    def take(self) -> Candidate | None:
        """Return the next candidate; None while the round's last results are not there."""
        if not self._waiting:
            if len(self._results) < len(self._made):
                return None
            self._learn()
            self._begin_round()
        return self._waiting.pop(0) if self._waiting else None

    def add(self, result: Result) -> None:
        """Note a result of this round."""
        self._results[result.seed] = result

    def _learn(self) -> None:
        """Keep what reached something new, in the order of the numbers."""
        for number in sorted(self._results):
            result = self._results[number]
            sound = result.outcome not in (INVALID, FAILED)
            self.corpus.add(self._made[number], result.states, keep=sound)
        self._results.clear()
        self._made.clear()

    def _begin_round(self) -> None:
        numbers = range(self._next, min(self._next + ROUND, self._numbers.stop))
        self._next = numbers.stop
        for number in numbers:
            candidate, draft = self._candidate(number)
            self._made[number] = draft
            self._waiting.append(candidate)

    def _candidate(self, number: int) -> tuple[Candidate, Draft]:
        """Return a candidate and its draft."""
        rng = random.Random(f"guided/{number}")
        if self.corpus.entries and (kind := rng.random()) >= FRESH:
            entry, other = self.corpus.choose(rng), self.corpus.choose(rng).draft
            if kind >= FRESH + CONTINUED:
                draft = mutated(entry.draft, other, rng).with_settings(seed=number)
            else:
                moment_ms = self.corpus.moment_ms(entry, rng)
                draft = continued(entry.draft, other, moment_ms, rng)
            if (task := self._task_of(draft)) is not None:
                return Candidate(task, number), draft
        drawn = prepared(self._task, number)
        return Candidate(self._task, number), Draft(drawn.plan, drawn.schedule.events)

    def _task_of(self, draft: Draft) -> Task | None:
        """Return the task of a changed draft; None if it cannot be run, because what it aims at is
        gone, or says nothing, because its settings do not fit together."""
        if not all(fits(draft.plan) for fits in FITTING):
            return None
        try:
            schedule = draft.schedule()
            task = replace(
                self._task,
                plan=draft.plan,
                schedule=schedule,
                seeds_are_swarms=False,
                changed_at_random=True,
            )
            prepared(task, draft.plan.seed)
        except (PlanError, NemesisError):
            return None
        return task
