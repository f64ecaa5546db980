"""Writes a failing plan as a scenario: a TOML file for people and for every target."""

import textwrap
from collections.abc import Mapping
from typing import Any

import tomli_w

from harness.plans.plan import Simulated, Topic
from harness.simulation.shrinking.trial import Failure

WIDTH = 98

UNSEEN = (
    "No client sees this failure: an invariant of the nodes' own state shows it, so a run with "
    "real processes will probably be VALID."
)


def text(failure: Failure, origin: str) -> str:
    """Return the scenario's TOML. `origin` is the command that found the failure first."""
    plan = failure.plan
    raw, default = plan.to_json(), type(plan)(seed=plan.seed).to_json()
    document = _not_default(raw, default) | {"name": f"shrunk-{plan.seed}", "seed": plan.seed}
    document.pop("target", None)  # a scenario is for every target
    document["topics"] = [
        _not_default(topic, Topic(name=topic["name"], acks=topic["acks"]).model_dump(mode="json"))
        | {"name": topic["name"], "acks": topic["acks"]}
        for topic in raw["topics"]
    ]
    document["workload"] = _not_default(raw["workload"], default["workload"])
    document["nemesis"] = {"events": [_event(event) for event in raw["nemesis"]["events"]]}
    about = (
        f"Shows {', '.join(failure.signs)}: {failure.reason}. Reduced from `{origin}`; "
        f"`{repeat_command(failure, 'FILE')}` repeats it exactly, `highwater run FILE` tries it "
        "with real processes."
    )
    if not failure.visible:
        about += f" {UNSEEN}"
    if plan.simulated != Simulated():
        about += (
            " The failure needs the delays of [simulated]: real processes have others, and may "
            "not show it."
        )
    head = textwrap.fill(about, WIDTH, initial_indent="# ", subsequent_indent="# ")
    return f"{head}\n{tomli_w.dumps(document)}"


def repeat_command(failure: Failure, path: str) -> str:
    """Return the command that repeats the failure from its scenario's file."""
    seed = failure.plan.seed
    unseen = " --no-invariants" if failure.visible else ""
    return f"highwater simulate {path} --seeds {seed}..{seed}{unseen}"


def _not_default(document: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value != default[key]}


def _event(event: dict[str, object]) -> dict[str, object]:
    """Return the event as a person would write it."""
    left_out: dict[str, object] = {"id": event["id"], "params": {}, "until_timeout_ms": 10_000}
    return {k: v for k, v in event.items() if v is not None and left_out.get(k) != v}
