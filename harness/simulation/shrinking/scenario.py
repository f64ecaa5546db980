"""A failing plan as a scenario: a file that people read and that every target takes."""

import textwrap
from collections.abc import Mapping
from typing import Any

import tomli_w

from harness.plans.plan import Topic
from harness.simulation.shrinking.trial import Failure

WIDTH = 98


def text(failure: Failure, origin: str) -> str:
    """The scenario's TOML. `origin` says, as a command, where the failure was found first."""
    plan = failure.plan
    raw, usual = plan.to_json(), type(plan)(seed=plan.seed).to_json()
    said = _unusual(raw, usual) | {"name": f"shrunk-{plan.seed}", "seed": plan.seed}
    said.pop("target", None)  # it goes for all of them
    said["topics"] = [
        _unusual(topic, Topic(name=topic["name"], acks=topic["acks"]).model_dump(mode="json"))
        | {"name": topic["name"], "acks": topic["acks"]}
        for topic in raw["topics"]
    ]
    said["workload"] = _unusual(raw["workload"], usual["workload"])
    said["nemesis"] = {"events": [_event(event) for event in raw["nemesis"]["events"]]}
    about = (
        f"Shows {', '.join(failure.signs)}: {failure.reason}. Reduced from `{origin}`; "
        f"`{repeated_by(failure, 'FILE')}` repeats it exactly, `highwater run FILE` tries it with "
        "real processes."
    )
    head = textwrap.fill(about, WIDTH, initial_indent="# ", subsequent_indent="# ")
    return f"{head}\n{tomli_w.dumps(said)}"


def repeated_by(failure: Failure, path: str) -> str:
    """The command that shows the failure again, from its scenario's file."""
    seed = failure.plan.seed
    unseen = " --no-invariants" if failure.visible else ""
    return f"highwater simulate {path} --seeds {seed}..{seed}{unseen}"


def _unusual(said: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if value != usual[key]}


def _event(event: dict[str, object]) -> dict[str, object]:
    """What somebody would have written."""
    left_out: dict[str, object] = {"id": event["id"], "params": {}, "until_timeout_ms": 10_000}
    return {k: v for k, v in event.items() if v is not None and left_out.get(k) != v}
