"""Seeds on the unmodified broker, and which of them a mutant meets first."""

from collections.abc import Sequence
from typing import NamedTuple

from harness.simulation.decisions.mutations import Mutation
from harness.simulation.decisions.probes import Probe


class Baseline(NamedTuple):
    """A seed on the unmodified broker."""

    seed: int
    digest: str
    outcome: str
    functions: frozenset[tuple[str, str]]
    """The module and name of each function that it reached."""
    outcomes: frozenset[Probe]
    """What the broker's decisions led to."""


def promising(mutation: Mutation, baselines: Sequence[Baseline]) -> list[Baseline]:
    """Return the seeds that reach the mutant's function. First come those in which the decisions
    of its line had most outcomes: a mutant shows where a decision is close, or goes both ways.
    """
    at = mutation.module, mutation.function
    reaching = [each for each in baselines if at in each.functions]
    return sorted(reaching, key=lambda each: (-_met(mutation, each), each.seed))


def _met(mutation: Mutation, baseline: Baseline) -> int:
    place = mutation.module, mutation.line
    return sum((each.module, each.line) == place for each in baseline.outcomes)
