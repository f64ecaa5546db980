"""A suite's cells: every combination of its matrix, its single cells and its canaries. Pure.

A cell is what is tried every night with new seeds; its name says what distinguishes it, and is how
nights are compared.
"""

import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.nightly.suite import Canary, One, Single, Suite, SuiteError, What
from harness.plans import plan as plans
from harness.plans.plan import Plan
from harness.run import prepare

FLAGS: Final[Mapping[str, str]] = {
    "faults": "--faults",
    "schedule": "--schedule",
    "nodes": "--nodes",
    "rate_per_s": "--rate",
    "duration_s": "--duration",
    "nemesis": "--nemesis",
    "target": "--target",
    "broker_module": "--broker-module",
}
"""Options of `highwater run`, by the suite's keys; acks may be given several times."""

NOT_SIMULATED: Final = ("schedule", "nemesis")
"""Keys that `highwater simulate` has no option for; a plan of one's own has them all."""

NOT_IN_A_NAME: Final = ("duration_s", "nemesis")
"""What says how long and how, and not what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is tried with so many seeds a night."""

    name: str
    what: What
    seeds: int
    canary: bool = False
    expect: str | None = None
    """Of a canary: the anomaly that must be found."""
    expectations: tuple[str, ...] = ()
    """Beside those of the plan."""
    target: str = "local"
    acks: str = ""
    """Of the plan's topics, as people write them."""
    faults: str = ""
    """That the plan asks for."""

    @property
    def simulated(self) -> bool:
        """Whether its trials are simulated worlds."""
        return self.target == "sim"

    def argv(self, seed: int, store: Path | None = None) -> list[str]:
        """The command line of a trial, without the program; as people type it without a store."""
        if self.simulated:
            words = ["simulate", self.what.plan, "--seeds", f"{seed}..{seed}", "--trace"]
        else:
            words = ["run", self.what.plan, "--seed", str(seed)]
        if store is not None:
            words += ["--store", str(store), "--json"]
        for name, option in FLAGS.items():
            value = getattr(self.what, name)
            if value is not None and not (self.simulated and name == "target"):
                words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
        for each in (self.what.acks or "").split(","):
            words += ["--acks", each.strip()] if each.strip() else []
        for each in self.expectations:
            words += ["--expect", each]
        return words

    def typed(self, seed: int) -> str:
        """The command line of a trial as people type it."""
        return shlex.join(["highwater", *self.argv(seed)])


def cells_of(suite: Suite, beside: Path) -> tuple[Cell, ...]:
    """The suite's cells in its order; plans and schedules that are files are found `beside` it.

    Raises SuiteError for two of one name, for none, and for what is no plan.
    """
    found = [_cell(what, suite, beside) for what in _combined(suite)]
    found += [_cell(each, suite, beside) for each in (*suite.cell, *suite.canary)]
    if not found:
        raise SuiteError(f"suite {suite.name}: has no cells; give it a [matrix] or [[cell]]s")
    names = [cell.name for cell in found]
    for name in names:
        if names.count(name) > 1:
            raise SuiteError(f"suite {suite.name}: two cells are called {name}; name one of them")
    return tuple(found)


def _combined(suite: Suite) -> Iterable[What]:
    axes: Mapping[str, Sequence[object]] = {
        name: values for name in What.model_fields if (values := getattr(suite.matrix, name))
    }
    if not axes:
        return
    for values in itertools.product(*axes.values()):
        yield What.model_validate(dict(zip(axes, values, strict=True)))


def _cell(what: What, suite: Suite, beside: Path) -> Cell:
    one = what if isinstance(what, One) else None
    canary = what if isinstance(what, Canary) else None
    name = (one.name if one else None) or _name(what)
    found = {"plan": _found(what.plan, beside)}
    if what.schedule is not None:
        found["schedule"] = str(beside / what.schedule)
    plain = What.model_validate({each: getattr(what, each) for each in What.model_fields} | found)
    seeds = (one.seeds if one else None) or suite.seeds
    asked = () if canary else (*suite.expect, *(one.expect if isinstance(one, Single) else ()))
    plan = _plan(name, plain, asked)
    return Cell(
        name=name,
        what=plain,
        seeds=seeds,
        canary=canary is not None,
        expect=canary.expect if canary else None,
        expectations=asked,
        target=plan.target,
        acks=",".join(dict.fromkeys(plans.acks_name(topic.acks) for topic in plan.topics)),
        faults=",".join(prepare.faults_of(plan)),
    )


def _name(what: What) -> str:
    """What distinguishes the cell, in the characters of file names."""
    parts = [Path(what.plan).stem]
    for key in What.model_fields:
        value = getattr(what, key)
        if key == "plan" or key in NOT_IN_A_NAME or value is None:
            continue
        text = f"{value:g}" if isinstance(value, float) else str(value)
        parts.append(text if key == "faults" else f"{key.removesuffix('_per_s')}-{text}")
    return "_".join(re.sub(r"[^A-Za-z0-9._-]+", "+", part).strip("+.") for part in parts)


def _found(plan: str, beside: Path) -> str:
    return plan if plan in plans.packaged() else str(beside / plan)


def _plan(name: str, what: What, expect: Sequence[str]) -> Plan:
    """The cell's plan. Raises SuiteError for what a run would refuse, as far as a plan tells."""
    flags = {name: getattr(what, name) for name in What.model_fields if name != "plan"}
    flags["expect"] = expect
    flags["acks"] = None if what.acks is None else [a.strip() for a in what.acks.split(",")]
    flags["faults"] = None if what.faults is None else [f.strip() for f in what.faults.split(",")]
    flags["schedule"] = None if what.schedule is None else Path(what.schedule)
    try:
        made = plans.build(plans.load(what.plan), where=f"plan {what.plan}", flags=flags)
        prepare.prepare(made)
    except plans.PlanError as error:
        raise SuiteError(f"cell {name}: {error}") from error
    left = [key for key in NOT_SIMULATED if getattr(what, key) is not None]
    if made.target == "sim" and left:
        raise SuiteError(
            f"cell {name}: {left[0]} is not for simulated cells; write it into the plan"
        )
    return made
