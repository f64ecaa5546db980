"""How a run is repeated: commands without a path of this machine, so that they work elsewhere
too."""

import shlex
from dataclasses import dataclass
from typing import Any, Final

from harness.plans import plan as plans
from harness.plans import repeat
from harness.reports.data.loading import StoredRun, directory_of

_OPTIONS: Final = {
    "nodes": "--nodes",
    "duration_s": "--duration",
    "target": "--target",
    "system": "--system",
    "control_plane": "--control-plane",
    "zookeepers": "--zookeepers",
    "broker_module": "--broker-module",
}
"""Options that only set a key of the plan; `--seed` is always given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The commands that repeat a run.

    command: needs the run's directory; it is entered in the store, where `directory` is found.
    from_plan: needs nothing but highwater; empty when no packaged plan and options make this plan.
    """

    plan: str
    seed: str
    directory: str
    command: str
    from_plan: str
    imported: bool
    """An import can be judged again, but not repeated."""


def replay_of(stored: StoredRun) -> Replay:
    """Return the commands for a stored run."""
    directory = directory_of(stored.run_dir)
    verb = repeat.command(stored.run_dir).removesuffix(shlex.quote(str(stored.run_dir)))
    return Replay(
        plan=str(stored.plan.get("name") or stored.run_dir.parent.name),
        seed=str(stored.plan.get("seed", "")),
        directory=directory,
        command=f"{verb}{shlex.quote(directory)}",
        from_plan=_from_plan(stored.plan),
        imported=verb.endswith("check "),
    )


def _from_plan(plan: dict[str, Any]) -> str:
    """Return the command that makes an equal plan from a packaged one; empty when none is known."""
    name, seed = plan.get("name"), plan.get("seed")
    if name not in plans.packaged() or not isinstance(seed, int):
        return ""
    try:
        packaged = plans.build(plans.load(str(name)), where=f"plan {name}").to_json()
        flags = {
            key: plan[key] for key in _OPTIONS if key in plan and plan[key] != packaged.get(key)
        }
        same = plans.build(
            plans.load(str(name)), where=f"plan {name}", flags={**flags, "seed": seed}
        ).to_json()
    except plans.PlanError:
        return ""
    if same != plan:
        return ""
    simulated = plan.get("target") == "sim"
    words = ["highwater", "simulate" if simulated else "run", str(name)]
    words += ["--seeds", f"{seed}..{seed}"] if simulated else ["--seed", str(seed)]
    for key, value in flags.items():
        if not (simulated and key == "target"):
            words += [_OPTIONS[key], f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)
