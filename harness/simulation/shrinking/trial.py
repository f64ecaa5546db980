"""Runs a plan in this process and returns its failure, at the least known cost.

A failure that clients see is searched for without invariants, so that the run reaches its end; the
checkers judge it where the screen has doubts. A failure that only an invariant sees ends the run,
and nothing has to be judged.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from harness.judging import judge
from harness.plans.plan import Plan, PlanError
from harness.recording.versions import commit, versions
from harness.simulation import screen
from harness.simulation.campaign import INVALID, Task, apply_broker_module, prepared
from harness.simulation.invariants import InvariantBroken
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation

MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A plan that fails, with its seed, and what it shows."""

    plan: Plan
    signs: tuple[str, ...]
    """The gravest sign first."""
    reason: str
    visible: bool = True
    """Whether clients see the failure; it was found without the nodes' own state."""
    at_ms: int | None = None
    """When it happened, in ms since the chaos began, if that is known."""


def failure_of(
    plan: Plan,
    seeds: Sequence[int],
    sign: str | None = None,
    visible: bool = True,
    until_s: float = inf,
) -> Failure | None:
    """Return the first failure among the seeds; with `sign`, the first that shows this sign.

    A plan that cannot be run has no failure.
    No run begins after `until_s` on the monotonic clock, which all processes share.
    """
    for seed in seeds:
        if time.monotonic() > until_s:
            break
        try:
            made = prepared(Task(plan=plan, root=Path()), seed)
        except PlanError:  # what an event aims at was left out: such a plan does not fail
            continue
        with apply_broker_module(plan.broker_module):
            recording = Simulation(made, invariants=not visible).run()
        seeded = plan.model_copy(update={"seed": seed})
        found = (_checker_failure if visible else _invariant_failure)(seeded, recording, sign)
        if found is not None:
            return found
    return None


def first_failure(plan: Plan, seeds: Sequence[int], until_s: float = inf) -> Failure | None:
    """Return the failure to reduce: one that clients see, else one that only an invariant sees.

    No run begins after `until_s` on the monotonic clock.
    """
    return failure_of(plan, seeds, until_s=until_s) or failure_of(
        plan, seeds, visible=False, until_s=until_s
    )


def _invariant_failure(plan: Plan, recording: Recording, sign: str | None) -> Failure | None:
    """Return the failure if an invariant ended the run."""
    broken = recording.failure
    if not isinstance(broken, InvariantBroken) or sign not in (None, broken.name):
        return None
    return Failure(
        plan=plan,
        signs=(broken.name,),
        reason=str(broken),
        visible=False,
        at_ms=_since_chaos_ms(recording, recording.facts["broken_invariant"]["at_ns"]),
    )


def _checker_failure(plan: Plan, recording: Recording, sign: str | None) -> Failure | None:
    """Return the failure if the checkers forbid what clients saw."""
    if recording.failure is not None or not screen.reasons(recording):
        return None
    with tempfile.TemporaryDirectory(prefix="highwater-shrink-") as root:
        run = recording.store(Path(root), versions=versions(), commit=commit())
        verdict = judge.check(run.path)
    signs = tuple(judge.count_forbidden(verdict))
    if verdict["verdict"] != INVALID or sign not in (None, *signs):
        return None
    return Failure(
        plan=plan,
        signs=signs,
        reason=verdict["reasons"][0],
        at_ms=_when(recording, verdict, sign or signs[0]),
    )


def _when(recording: Recording, verdict: dict[str, Any], sign: str) -> int | None:
    """Return when the first operation that shows the sign ended; None if no operation shows it."""
    found = [a for a in verdict["anomalies"] if a["kind"] == sign]
    examples = [e for a in found if a["judgement"] == "forbidden" for e in a["examples"]]
    ended_ns = [ns for e in examples if (ns := e.get("complete_ns")) is not None]
    return _since_chaos_ms(recording, min(ended_ns)) if ended_ns else None


def _since_chaos_ms(recording: Recording, at_ns: int) -> int:
    began = (e["at_ns"] for e in recording.journal if e.get("phase") == "chaos")
    return max(0, (at_ns - next(began, 0)) // MS)
