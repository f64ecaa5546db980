"""Repeating a run: the same plan.json and schedule.json, byte for byte, on a new cluster.

A selector such as "the leader" is resolved again, and may name another node this time. With
`resolved`, the recorded faults decide instead: the same nodes as in the stored run are hit.
"""

import json
import platform
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkers.history import plan_file
from checkers.history.history import FAULTS, HistoryError, load_table, read_sources
from harness.plans.plan import Plan, PlanError, with_expectations
from harness.recording import store
from nemesis.base import NemesisError
from nemesis.schedule import Schedule, from_json

ALLOWED_FLAGS = ("broker_module", "expect")
"""Flags that change neither the workload nor the schedule."""


def command(run_dir: Path) -> str:
    """Return the shell command that repeats a stored run. An imported run can only be checked
    again."""
    try:
        plan = json.loads((run_dir / "plan.json").read_text())
    except (OSError, ValueError, RecursionError):
        plan = {}  # other parts of the report say that the plan is missing
    match plan:
        case {"system": plan_file.IMPORTED}:
            verb = "check"
        case {"target": "sim"}:
            verb = "simulate --replay"
        case _:
            verb = "run --replay"
    return f"highwater {verb} {shlex.quote(str(run_dir))}"


def load(
    run_dir: Path, plan: str | None, flags: Mapping[str, Any], *, resolved: bool = False
) -> tuple[Plan, Schedule]:
    """Return the plan and schedule of a stored run. Raises PlanError, StoreError."""
    given = [
        name for name, value in flags.items() if value is not None and name not in ALLOWED_FLAGS
    ]
    if plan is not None or given:
        extra = "a plan" if plan is not None else f"the flag for {given[0]}"
        raise PlanError(
            f"--replay {run_dir} repeats a run unchanged and takes no other plan; leave out {extra}"
        )
    run = store.open_run(run_dir)
    try:
        raw = json.loads((run.path / "plan.json").read_text())
        if isinstance(raw, dict) and raw.get("system") == plan_file.IMPORTED:
            raise PlanError(
                f"{run_dir}: is an import of another tool's run and cannot be repeated here; "
                f"`highwater check {run_dir}` judges it again"
            )
        schedule = from_json((run.path / "schedule.json").read_bytes())
    except (OSError, ValueError, RecursionError, NemesisError) as error:
        raise PlanError(f"{run_dir}: its plan and schedule cannot be read: {error}") from error
    module = flags.get("broker_module")
    changed = {} if module is None else {"broker_module": module}
    made = Plan.from_json({**raw, **changed}, f"{run_dir}/plan.json")
    made = with_expectations(made, flags.get("expect") or ())
    return made, _resolved(run.path, schedule) if resolved else schedule


def of_another_python(run_dir: Path) -> str | None:
    """Return a warning if another minor version of Python simulated a stored run: its asyncio may
    resume tasks in another order. None if it was this one, or is unknown.
    """
    try:
        then = str(json.loads((run_dir / store.RUN_FILE).read_text())["versions"]["python"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    here = platform.python_version()
    if _minor(then) == _minor(here):
        return None
    return (
        f"{run_dir} was simulated with Python {then}. This is {here}: the same seed may take "
        f"another course here. To repeat it exactly, use Python {_minor(then)}"
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _resolved(run_dir: Path, schedule: Schedule) -> Schedule:
    """Return the schedule with the nodes that each event hit in the stored run.

    Events that hit no node are left out.
    """
    try:
        found = load_table(run_dir, "faults")
        rows = read_sources(found, FAULTS).select(["fault_id", "targets"]).to_pylist()
    except HistoryError as error:
        raise PlanError(f"{run_dir}: its record of faults cannot be read: {error}") from error
    if not found:
        raise PlanError(
            f"{run_dir}: it has no record of faults, so it is unknown which nodes were hit; "
            "leave out --resolved"
        )
    hit = {row["fault_id"]: _resolved_nodes(row["targets"]) for row in rows}
    events = tuple(
        event.model_copy(update={"nodes": nodes})
        for event in schedule.events
        if (nodes := hit.get(event.id)) is not None
    )
    if schedule.events and not events:
        raise PlanError(f"{run_dir}: no fault hit a node in this run; leave out --resolved")
    return schedule.model_copy(update={"events": events})


def _resolved_nodes(targets: str | None) -> tuple[int, ...] | None:
    """Return the nodes that an event's targets meant, by its row in the record of faults."""
    found = json.loads(targets or "{}")
    return tuple(found["meant"]) if isinstance(found, dict) and "meant" in found else None
