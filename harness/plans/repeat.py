"""Repeating a run: its plan.json and schedule.json, to the byte, on a new cluster.

A target such as "the leader" is resolved anew, and may be another node this time. `resolved` takes
the nodes of the record of faults instead: the same nodes as then are struck, in the same way.
"""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkers.history import plan_file
from checkers.history.history import FAULTS, HistoryError, load_table, read_sources
from harness.plans.plan import Plan, PlanError, expecting
from harness.recording import store
from nemesis.base import NemesisError
from nemesis.schedule import Schedule, from_json

KEPT = ("broker_module", "expect")
"""Flags that change neither workload nor schedule: the same test of another broker, or for more."""


def command(run_dir: Path) -> str:
    """What repeats a stored run, for a shell; of an import only the judging can be repeated."""
    try:
        plan = json.loads((run_dir / "plan.json").read_text())
    except (OSError, ValueError, RecursionError):
        plan = {}  # its loss is told elsewhere
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
    """The plan and schedule of a stored run. Raises PlanError, StoreError."""
    given = [name for name, value in flags.items() if value is not None and name not in KEPT]
    if plan is not None or given:
        extra = "a plan" if plan is not None else f"the flag for {given[0]}"
        raise PlanError(
            f"--replay {run_dir} repeats a run as it was and takes no other plan; leave out {extra}"
        )
    run = store.open_run(run_dir)
    try:
        raw = json.loads((run.path / "plan.json").read_text())
        if isinstance(raw, dict) and raw.get("system") == plan_file.IMPORTED:
            raise PlanError(
                f"{run_dir}: is an import, which another tool ran; `highwater check {run_dir}` "
                "judges it again, but nothing here can repeat it"
            )
        schedule = from_json((run.path / "schedule.json").read_bytes())
    except (OSError, ValueError, RecursionError, NemesisError) as error:
        raise PlanError(f"{run_dir}: its plan and schedule cannot be read: {error}") from error
    module = flags.get("broker_module")
    changed = {} if module is None else {"broker_module": module}
    made = Plan.from_json({**raw, **changed}, f"{run_dir}/plan.json")
    made = expecting(made, flags.get("expect") or ())
    return made, _resolved(run.path, schedule) if resolved else schedule


def _resolved(run_dir: Path, schedule: Schedule) -> Schedule:
    """The schedule with the nodes that were struck then; events that struck nobody are left out."""
    try:
        found = load_table(run_dir, "faults")
        rows = read_sources(found, FAULTS).select(["fault_id", "targets"]).to_pylist()
    except HistoryError as error:
        raise PlanError(f"{run_dir}: its record of faults cannot be read: {error}") from error
    if not found:
        raise PlanError(
            f"{run_dir}: it has no record of faults, so that nobody knows which nodes were struck; "
            "leave out --resolved"
        )
    struck = {row["fault_id"]: _meant(row["targets"]) for row in rows}
    events = tuple(
        event.model_copy(update={"nodes": nodes})
        for event in schedule.events
        if (nodes := struck.get(event.id)) is not None
    )
    if schedule.events and not events:
        raise PlanError(f"{run_dir}: no fault struck anybody in this run; leave out --resolved")
    return schedule.model_copy(update={"events": events})


def _meant(targets: str | None) -> tuple[int, ...] | None:
    """Whom an event's targets meant, by its row in the record of faults."""
    found = json.loads(targets or "{}")
    return tuple(found["meant"]) if isinstance(found, dict) and "meant" in found else None
