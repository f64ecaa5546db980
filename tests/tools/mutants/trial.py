"""One mutant's trial: the unit tests of its package, then simulated seeds that reach its function.

A mutant runs in processes of its own, because it may never end.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

from harness.plans import plan as plans
from harness.simulation.campaign import FAILED, INVALID, Task, run_seed
from harness.simulation.decisions import mutations
from harness.simulation.decisions.mutations import Mutation
from tests.support.mutated import VARIABLE

ROOT: Final = Path(__file__).parents[3]
TESTS_TIMEOUT_S: Final = 300
SEED_TIMEOUT_S: Final = 120
HANGS: Final = "hangs"


class Baseline(NamedTuple):
    """A seed on the unmodified broker."""

    seed: int
    digest: str
    outcome: str
    functions: frozenset[tuple[str, str]]
    """The module and name of each function that it reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What found a mutant, None for what did not find it.

    tests: the first failed test. invariants, clients: the seed, and what it showed, with the checks
    of the nodes' own state and without these. reached: how many seeds reached its function.
    changed: how many of them did not run as the unmodified broker did.
    """

    mutation: Mutation
    tests: str | None
    invariants: tuple[int, str] | None
    clients: tuple[int, str] | None
    reached: int
    changed: int

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


def try_mutant(mutation: Mutation, baselines: Sequence[Baseline], root: Path) -> Tried:
    """Try one mutant."""
    at = mutation.module, mutation.function
    reached = [each for each in baselines if at in each.functions]
    tests = _failed_test(mutation)
    with_invariants = _search(mutation, reached, root, invariants=True)
    differing = [each for each in reached if each.seed in with_invariants.changed]
    alone = _search(mutation, differing, root, invariants=False)
    return Tried(
        mutation=mutation,
        tests=tests,
        invariants=with_invariants.found,
        clients=alone.found,
        reached=len(reached),
        changed=len(with_invariants.changed),
    )


def _failed_test(mutation: Mutation) -> str | None:
    """Return the first test of the mutant's package that fails, its module's own tests first."""
    _, package, name = mutation.module.split(".")
    folder = ROOT / "tests" / "nodes" / package
    own = folder / f"test_{name}.py"
    files = [str(own)] if own.exists() else []
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", "not slow"]
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.mutated", *options]
    try:
        ended = subprocess.run(
            [*command, *files, str(folder)],
            cwd=ROOT, env={**os.environ, VARIABLE: mutation.name}, timeout=TESTS_TIMEOUT_S,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return HANGS
    if ended.returncode == 0:
        return None
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else f"exit code {ended.returncode}"


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
    changed: set[int] = set()
    found: tuple[int, str] | None = None
    for at, baseline in enumerate(seeds):
        try:
            answer = here.recv() if here.poll(SEED_TIMEOUT_S) else (baseline.seed, HANGS, "")
        except EOFError:
            answer = (baseline.seed, "the process died", "")
        _, sign, digest = answer
        if sign or digest != baseline.digest:
            changed.add(baseline.seed)
        if sign:
            found = baseline.seed, sign
            changed |= {each.seed for each in seeds[at:]}
            break
    process.kill()
    process.join()
    return _Searched(found, frozenset(changed))


def _run_seeds(
    connection: Connection,
    mutation: Mutation,
    seeds: Sequence[Baseline],
    root: Path,
    invariants: bool,
) -> None:
    """Send (seed, sign, digest) of each seed; a sign is what a user would see."""
    mutations.apply(mutation)
    wanted = task(root, invariants=invariants)
    for baseline in seeds:
        result = run_seed(wanted, baseline.seed)
        bad = result.outcome in (INVALID, FAILED) and baseline.outcome != result.outcome
        sign = ", ".join(result.signs) or result.outcome if bad else ""
        connection.send((baseline.seed, sign, result.digest))
