"""The cells of a suite: every combination of its matrix, its single cells and its canaries.

A cell runs every night with new seeds. Its name contains what distinguishes it from other cells;
nights are compared by these names. Pure, except that plans and broker modules are looked up.
"""

import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.nightly.suite import Canary, CellEntry, CellSettings, SingleCell, Suite, SuiteError
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
"""Options of `highwater run` by the keys of a suite. `--acks` is apart: it may be repeated."""

NOT_SIMULATED: Final = ("schedule", "nemesis")
"""Keys without an option of `highwater simulate`. A plan file can contain them."""

NOT_IN_A_NAME: Final = ("duration_s", "nemesis")
"""Keys that say how long or how a cell runs, not what it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: it runs with `seeds` seeds every night."""

    name: str
    settings: CellSettings
    seeds: int
    canary: bool = False
    expect: str | None = None
    """The anomaly that a canary must show; None: any."""
    expectations: tuple[str, ...] = ()
    """Expectations besides those of the plan."""
    target: str = "local"
    acks: str = ""
    """The acks modes of the plan's topics, such as `1,all`."""
    faults: str = ""
    """The faults that the plan asks for, with commas."""

    @property
    def simulated(self) -> bool:
        """Whether the trials run in a simulated world."""
        return self.target == "sim"

    def argv(self, seed: int, store: Path | None = None) -> list[str]:
        """Return the arguments of a trial, without the program; without `store`, as people type
        them."""
        if self.simulated:
            words = ["simulate", self.settings.plan, "--seeds", f"{seed}..{seed}", "--trace"]
        else:
            words = ["run", self.settings.plan, "--seed", str(seed)]
        if store is not None:
            words += ["--store", str(store), "--json"]
        for name, option in FLAGS.items():
            value = getattr(self.settings, name)
            if value is not None and not (self.simulated and name == "target"):
                words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
        for each in (self.settings.acks or "").split(","):
            words += ["--acks", each.strip()] if each.strip() else []
        for each in self.expectations:
            words += ["--expect", each]
        return words

    def command_line(self, seed: int) -> str:
        """Return the command line of a trial as people type it."""
        return shlex.join(["highwater", *self.argv(seed)])


def cells_of(suite: Suite, beside: Path) -> tuple[Cell, ...]:
    """Return the cells of a suite, in its order. `beside` is the directory of the suite file; plans
    and schedules that are files are looked up there.

    Raises SuiteError for two cells of one name, for a suite without cells, for a plan that cannot
    run, and for a broker module that does not exist.
    """
    found = [_cell(settings, suite, beside) for settings in _combined(suite)]
    found += [_cell(each, suite, beside) for each in (*suite.cell, *suite.canary)]
    if not found:
        raise SuiteError(f"suite {suite.name}: has no cells; give it a [matrix] or [[cell]] tables")
    names = [cell.name for cell in found]
    for name in names:
        if names.count(name) > 1:
            raise SuiteError(f"suite {suite.name}: two cells are called {name}; rename one of them")
    return tuple(found)


def _combined(suite: Suite) -> Iterable[CellSettings]:
    axes: Mapping[str, Sequence[object]] = {
        name: values
        for name in CellSettings.model_fields
        if (values := getattr(suite.matrix, name))
    }
    if not axes:
        return
    for values in itertools.product(*axes.values()):
        yield CellSettings.model_validate(dict(zip(axes, values, strict=True)))


def _cell(settings: CellSettings, suite: Suite, beside: Path) -> Cell:
    one = settings if isinstance(settings, CellEntry) else None
    canary = settings if isinstance(settings, Canary) else None
    name = (one.name if one else None) or _name(settings)
    found = {"plan": _found(settings.plan, beside)}
    if settings.schedule is not None:
        found["schedule"] = str(beside / settings.schedule)
    plain = CellSettings.model_validate(
        {each: getattr(settings, each) for each in CellSettings.model_fields} | found
    )
    seeds = (one.seeds if one else None) or suite.seeds
    asked = () if canary else (*suite.expect, *(one.expect if isinstance(one, SingleCell) else ()))
    plan = _plan(name, plain, asked)
    return Cell(
        name=name,
        settings=plain,
        seeds=seeds,
        canary=canary is not None,
        expect=canary.expect if canary else None,
        expectations=asked,
        target=plan.target,
        acks=",".join(dict.fromkeys(plans.acks_name(topic.acks) for topic in plan.topics)),
        faults=",".join(prepare.faults_of(plan)),
    )


def _name(settings: CellSettings) -> str:
    """Return a name that contains what distinguishes the cell, in characters of file names."""
    parts = [Path(settings.plan).stem]
    for key in CellSettings.model_fields:
        value = getattr(settings, key)
        if key == "plan" or key in NOT_IN_A_NAME or value is None:
            continue
        text = f"{value:g}" if isinstance(value, float) else str(value)
        parts.append(text if key == "faults" else f"{key.removesuffix('_per_s')}-{text}")
    return "_".join(re.sub(r"[^A-Za-z0-9._-]+", "+", part).strip("+.") for part in parts)


def _found(plan: str, beside: Path) -> str:
    return plan if plan in plans.packaged() else str(beside / plan)


def _plan(name: str, settings: CellSettings, expect: Sequence[str]) -> Plan:
    """Return the cell's plan. Raises SuiteError for what a run would refuse before it starts."""
    flags = {name: getattr(settings, name) for name in CellSettings.model_fields if name != "plan"}
    flags["expect"] = expect
    flags["acks"] = None if settings.acks is None else [a.strip() for a in settings.acks.split(",")]
    flags["faults"] = (
        None if settings.faults is None else [f.strip() for f in settings.faults.split(",")]
    )
    flags["schedule"] = None if settings.schedule is None else Path(settings.schedule)
    try:
        made = plans.build(plans.load(settings.plan), where=f"plan {settings.plan}", flags=flags)
        prepare.prepare(made)
    except plans.PlanError as error:
        raise SuiteError(f"cell {name}: {error}") from error
    left = [key for key in NOT_SIMULATED if getattr(settings, key) is not None]
    if made.target == "sim" and left:
        raise SuiteError(
            f"cell {name}: {left[0]} is no option of simulated cells; write it into the plan"
        )
    return made
