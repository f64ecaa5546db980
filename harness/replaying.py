"""Repeating a run: its plan.json and schedule.json, to the byte, on a new cluster."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import store
from harness.plan import Plan, PlanError, Prepared, prepare
from nemesis.base import NemesisError
from nemesis.schedule import from_json

KEPT = ("broker_module",)
"""Flags that change neither plan nor schedule: the same test of another broker."""


def load(run_dir: Path, plan: str | None, flags: Mapping[str, Any]) -> Prepared:
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
        schedule = from_json((run.path / "schedule.json").read_bytes())
    except (OSError, ValueError, NemesisError) as error:
        raise PlanError(f"{run_dir}: its plan and schedule cannot be read: {error}") from error
    changed = {name: flags[name] for name in KEPT if flags.get(name) is not None}
    made = Plan.from_json({**raw, **changed}, f"{run_dir}/plan.json")
    return prepare(made, schedule=schedule)
