"""One mutant's trial: the fast tests, and then the simulated seeds, that reach its function.

A mutant runs in processes of its own, because it may never end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.plans import plan as plans
from harness.simulation.campaign import FAILED, INVALID, Task, run_seed
from harness.simulation.decisions import mutations
from harness.simulation.decisions.mutations import Mutation
from tests.tools.mutants.baselines import Baseline, promising
from tests.tools.mutants.patience import Patience
from tests.tools.mutants.unit_tests import HANGS, UnitTests

SEED_CPU_S: Final = 120
SEED_ASLEEP_S: Final = 30
"""More than a seed uses: it never waits for anything."""
LOOK_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What found a mutant, None for what did not find it.

    tests: the first failed test. invariants, clients: the seed, and what it showed, with the checks
    of the nodes' own state and without these. reached: how many seeds reached its function.
    changed: how many of them did not run as the unmodified broker did. simulated: whether seeds
    were run at all.
    """

    mutation: Mutation
    tests: str | None
    invariants: tuple[int, str] | None
    clients: tuple[int, str] | None
    reached: int
    changed: int
    simulated: bool = True

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Tried":
        """Return what `dataclasses.asdict` made."""
        seeds = {
            name: None if value[name] is None else tuple(value[name])
            for name in ("invariants", "clients")
        }
        return cls(**{**value, **seeds, "mutation": Mutation(**value["mutation"])})

    @property
    def found(self) -> bool:
        """Whether anything found it."""
        return any(each is not None for each in (self.tests, self.invariants, self.clients))

    @property
    def same(self) -> bool:
        """Whether its decisions never differed in a seed."""
        return not self.changed


def task(root: Path, *, invariants: bool = True, coverage: bool = False) -> Task:
    """Return what runs a seed of the swarm."""
    plan = plans.build(plans.load("simulation"), where="mutants", flags={})
    return Task(
        plan=plan, seeds_are_swarms=True, root=root, invariants=invariants, coverage=coverage
    )


def try_mutant(
    mutation: Mutation,
    tests: UnitTests,
    baselines: Sequence[Baseline],
    root: Path,
    *,
    to_first: bool = False,
    first: int | None = None,
) -> Tried:
    """Try one mutant; with `to_first`, no seed runs if a test finds it. `first`: at most so many
    seeds."""
    failed = tests.first_failure(mutation)
    reached = promising(mutation, baselines)[:first]
    if to_first and failed is not None:
        return Tried(
            mutation=mutation, tests=failed, invariants=None, clients=None, simulated=False,
            reached=len(reached), changed=0,
        )  # fmt: skip
    with_invariants = _search(mutation, reached, root, invariants=True)
    differing = [each for each in reached if each.seed in with_invariants.changed]
    alone = _search(mutation, differing, root, invariants=False)
    return Tried(
        mutation=mutation,
        tests=failed,
        invariants=with_invariants.found,
        clients=alone.found,
        reached=len(reached),
        changed=len(with_invariants.changed),
        simulated=bool(baselines),
    )


def try_clients(
    mutation: Mutation, baselines: Sequence[Baseline], root: Path, *, first: int | None = None
) -> Tried:
    """Try whether clients see a mutant, without tests and without checks of the nodes' state."""
    reached = promising(mutation, baselines)[:first]
    alone = _search(mutation, reached, root, invariants=False)
    return Tried(
        mutation=mutation, tests=None, invariants=None, clients=alone.found,
        reached=len(reached), changed=len(alone.changed),
    )  # fmt: skip


class _Searched(NamedTuple):
    found: tuple[int, str] | None
    changed: frozenset[int]


def _search(
    mutation: Mutation, seeds: Sequence[Baseline], root: Path, *, invariants: bool
) -> _Searched:
    """Run seeds until one shows the mutant. changed: the seeds that ran differently; after a find
    the rest counts as changed too, because nobody knows."""
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run_seeds, args=(there, mutation, seeds, root, invariants))
    process.start()
    there.close()
    patience = Patience(process.pid or 0, cpu_s=SEED_CPU_S, asleep_s=SEED_ASLEEP_S)
    changed: set[int] = set()
    found: tuple[int, str] | None = None
    for at, baseline in enumerate(seeds):
        sign, digest = _answer(here, patience)
        if sign or digest != baseline.digest:
            changed.add(baseline.seed)
        if sign:
            found = baseline.seed, sign
            changed |= {each.seed for each in seeds[at:]}
            break
    process.kill()
    process.join()
    return _Searched(found, frozenset(changed))


def _answer(connection: Connection, patience: Patience) -> tuple[str, str]:
    """Return (sign, digest) of the next seed."""
    patience.begin()
    try:
        while not connection.poll(LOOK_EVERY_S):
            if patience.ended():
                return HANGS, ""
        sign, digest = connection.recv()
    except EOFError:
        return "the process died", ""
    return sign, digest


def _run_seeds(
    connection: Connection,
    mutation: Mutation,
    seeds: Sequence[Baseline],
    root: Path,
    invariants: bool,
) -> None:
    """Send (sign, digest) of each seed; a sign is what a user would see."""
    mutations.apply(mutation)
    wanted = task(root, invariants=invariants)
    for baseline in seeds:
        result = run_seed(wanted, baseline.seed)
        bad = result.outcome in (INVALID, FAILED) and baseline.outcome != result.outcome
        sign = ", ".join(result.signs) or result.outcome if bad else ""
        connection.send((sign, result.digest))
