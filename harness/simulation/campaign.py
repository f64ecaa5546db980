"""Many seeds of a plan, in processes: each run is screened, and judged where the screen has doubts.

A seed is one task of a process. The process gets the seed's number and returns a Result; so a
result does not depend on the process, or on what ran there before.
"""

import contextlib
import gc
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from checkers.contract import headline
from checkers.history.history import SENDS
from harness.brokers.modules import imported
from harness.judging import judge
from harness.plans.plan import Plan, PlanError
from harness.recording.versions import commit, versions
from harness.run import prepare
from harness.run.prepare import Prepared
from harness.simulation import screen, situations, swarm, workers
from harness.simulation.decisions import reached
from harness.simulation.decisions.reached import State
from harness.simulation.invariants import InvariantBroken
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation
from nemesis.schedule import Schedule

OWN_BROKER: Final = "nodes"
SEEDS_PER_PROCESS: Final = 200
"""A process is replaced after this many seeds, in case its runs left something in memory."""
DOUBLE_CHECK_EVERY: Final = 25
"""The checkers judge one of this many clean seeds as well: they must agree with the screen."""

VALID, INVALID, UNKNOWN, FAILED = "VALID", "INVALID", "UNKNOWN", "FAILED"
UNMET: Final = "UNMET"
"""The contract is not broken, but an expectation of the user certainly failed."""
IDLE: Final = "IDLE"
"""A swarm's seed whose faults did nothing, and in which nothing else is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a process needs to run seeds."""

    plan: Plan
    seeds_are_swarms: bool = False
    schedule: Schedule | None = None
    root: Path
    """The folder for run directories."""
    keep: bool = False
    """Keep each run directory, with the nodes' log lines."""
    invariants: bool = True
    """Check the nodes' own state after each event."""
    changed_at_random: bool = False
    """A search changed the plan: its seed stays, and as in a swarm's plan, its faults may do
    nothing."""
    coverage: bool = False
    """Note which of the broker's decisions are reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a seed."""

    seed: int
    outcome: str
    reasons: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    """What an INVALID seed shows: the broken invariant, or the kinds of forbidden anomalies."""
    digest: str = ""
    events: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    screened: bool = False
    """The screen alone decided."""
    acked: int = 0
    run: Path | None = None
    drawn: str = ""
    met: Counter[str] = field(default_factory=Counter)
    states: Mapping[State, int] = field(default_factory=dict)
    """What was reached of the broker's decisions, if the task wants to know, and when first: ms of
    the chaos, negative before it."""


def prepared(task: Task, seed: int) -> Prepared:
    """Return the run of a seed. Raises PlanError."""
    kept = task.plan.seed if task.changed_at_random else seed
    plan = task.plan.model_copy(update={"seed": kept, "target": "sim"})
    own = {"client": "own", "client_command": ()}
    further = tuple(each.model_copy(update=own) for each in plan.more_workloads)
    workload = plan.workload.model_copy(update=own)
    plan = plan.model_copy(update={"workload": workload, "more_workloads": further})
    if task.seeds_are_swarms:
        plan = swarm.draw_plan(plan, seed)
    return prepare.prepare(plan, schedule=task.schedule)


def run_seed(task: Task, seed: int) -> Result:
    """Run and judge a seed in this process. Raises PlanError, StoreError."""
    began_s = time.process_time()
    made = prepared(task, seed)
    with contextlib.ExitStack() as stack:
        notes = stack.enter_context(reached.noted()) if task.coverage else reached.Notes()
        stack.enter_context(apply_broker_module(made.plan.broker_module))
        simulation = Simulation(made, keep_logs=task.keep, invariants=task.invariants)
        notes.now_ns = simulation.now_ns
        recording = simulation.run()
    why = screen.reasons(recording)
    clean = not why
    screened = clean and seed % DOUBLE_CHECK_EVERY != 0 and not task.keep
    judged = _Judgement(VALID) if screened else _judged(task, recording)
    reasons = judged.reasons
    if clean and judged.outcome != VALID:
        reasons = ("the screen found the run clean, the checkers did not", *reasons)
    return Result(
        seed=seed,
        outcome=judged.outcome,
        reasons=reasons,
        signs=judged.signs,
        digest=recording.digest,
        events=recording.events,
        simulated_s=recording.simulated_s,
        cpu_s=time.process_time() - began_s,
        screened=screened,
        acked=_acked(recording),
        run=judged.run,
        drawn=swarm.describe(made.plan) if task.seeds_are_swarms else "",
        met=situations.situations(recording),
        states=_in_chaos(notes.first_ns, recording),
    )


def _in_chaos(first_ns: Mapping[State, int], recording: Recording) -> dict[State, int]:
    """Return the times of states as ms of the chaos."""
    began_ns = recording.phase_ns("chaos")
    return {state: (at_ns - began_ns) // 1_000_000 for state, at_ns in first_ns.items()}


def _acked(recording: Recording) -> int:
    return sum(
        row[2] in SENDS and row[3] == "ok" for each in recording.histories for row in each.rows
    )


class _Judgement(NamedTuple):
    outcome: str
    reasons: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    run: Path | None = None


def _judged(task: Task, recording: Recording) -> _Judgement:
    """Judge a recording with the checkers; remove a run directory that shows nothing."""
    run = recording.store(task.root, versions=versions(), commit=commit())
    failure = recording.failure
    if failure is not None and not isinstance(failure, InvariantBroken):
        phase = recording.facts["failed_phase"]
        return _Judgement(FAILED, (f"in phase {phase!r}: {failure}",), (), run.path)
    verdict = judge.check(run.path)
    found = headline.of(verdict)
    outcome = _outcome(verdict)
    why = (*verdict["reasons"], *recording.troubles)
    reasons = (*_expected(found), *why)
    random = task.seeds_are_swarms or task.changed_at_random
    if outcome == UNKNOWN and random and len(why) == 1 and _idle(recording):
        outcome = IDLE
    if outcome in (VALID, IDLE) and not task.keep:
        shutil.rmtree(run.path)
        return _Judgement(outcome, reasons)
    judge.write_report(run.path)
    return _Judgement(outcome, reasons, tuple(judge.count_forbidden(verdict)), run.path)


def _outcome(verdict: Mapping[str, Any]) -> str:
    """Return the verdict, unless an expectation of the user failed."""
    answer = str(verdict["verdict"])
    if answer == INVALID:
        return INVALID
    return {1: UNMET, 2: UNKNOWN}.get(judge.exit_code(verdict), answer)


def _expected(found: headline.Headline) -> tuple[str, ...]:
    """Return the user's expectations that failed or could not be decided."""
    return (
        *(f"EXPECTATION FAILED: {each}" for each in found.unmet),
        *(f"EXPECTATION NOT DECIDED: {each}" for each in found.undecided),
    )


def _idle(recording: Recording) -> bool:
    """Whether no fault took effect. The checkers report this for a run that is meant to break
    something; for a random run it means nothing.
    """
    return not any(row["took_effect"] for row in recording.faults.named())


@contextmanager
def apply_broker_module(module: str) -> Iterator[None]:
    """Patch the brokers of this process with a module's `apply()`, and undo that at the end.

    Raises PlanError for a module without `apply()`.
    """
    if module == OWN_BROKER:
        yield
        return
    try:
        apply = imported(module).apply
    except (ImportError, AttributeError) as error:
        raise PlanError(
            f"broker_module {module} cannot be simulated: {error}; a simulation runs the built-in "
            "broker, or a module whose apply() patches it and returns a function that undoes that"
        ) from error
    undo = apply()
    try:
        yield
    finally:
        undo()


class Candidate(NamedTuple):
    """A run to be made: a task, and the seed of its plan."""

    task: Task
    seed: int


class Source(Protocol):
    """Says what is run next."""

    def take(self) -> Candidate | None:
        """Return the next candidate; None at the end, or until a result is added."""

    def add(self, result: Result) -> None:
        """Learn a result."""


class Seeds:
    """The seeds of one task, in their order."""

    def __init__(self, task: Task, seeds: Iterable[int]) -> None:
        self._task = task
        # An iterator, because an endless range of seeds has two thousand million numbers.
        self._seeds = iter(seeds)

    def take(self) -> Candidate | None:
        """Return the next seed."""
        return next((Candidate(self._task, seed) for seed in self._seeds), None)

    def add(self, result: Result) -> None:
        """Nothing depends on it."""


class Campaign:
    """Runs candidates in processes, in their order, and yields results as they come."""

    def __init__(self, source: Source, *, jobs: int) -> None:
        self._source = source
        self._jobs = jobs
        self._running: dict[Future[Result], int] = {}
        self._stopped = False

    def stop(self) -> None:
        """Begin no more seeds."""
        self._stopped = True

    @property
    def begun(self) -> Sequence[int]:
        """The seeds that were begun and have no result yet. Any thread may ask."""
        return sorted([*self._running.values()])

    def results(self, until_s: float | None = None) -> Iterator[Result]:
        """Yield all results until the seeds or the time (monotonic seconds) are used up; seeds in
        progress are finished.
        """
        with workers.pool(self._jobs, tasks_each=SEEDS_PER_PROCESS, ignore_interrupts=True) as pool:
            running = self._running
            # One seed waits for the next free process; a single process need not be so busy.
            at_once = self._jobs + (self._jobs > 1)
            while True:
                while len(running) < at_once and (taken := self._take(until_s)) is not None:
                    running[pool.submit(_run_alone, *taken)] = taken.seed
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=running.__getitem__):
                    result = _result_of(future, running.pop(future))
                    self._source.add(result)
                    yield result

    def _take(self, until_s: float | None) -> Candidate | None:
        in_time = until_s is None or time.monotonic() < until_s
        return self._source.take() if in_time and not self._stopped else None


def _run_alone(task: Task, seed: int) -> Result:
    """Run a seed in a process that does nothing else.

    Older objects, mostly modules, are examined for garbage once, and not again at each kill of a
    simulated host.
    """
    gc.collect()
    gc.freeze()
    return run_seed(task, seed)


def _result_of(future: "Future[Result]", seed: int) -> Result:
    """Return a seed's result; a process that died or raised gives one too."""
    error = future.exception()
    if error is None:
        return future.result()
    return Result(seed=seed, outcome=FAILED, reasons=(repr(error),))
