"""The commands that repeat a run, on this machine and on others."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.plans import plan as plans
from harness.reports.data.loading import load
from harness.reports.replay import replay_of


def stored(tmp_path: Path, raw: dict[str, Any]) -> Path:
    run = tmp_path / "quick" / "20260101T000000.000Z"
    run.mkdir(parents=True)
    (run / "plan.json").write_text(json.dumps(raw))
    return run


@pytest.mark.parametrize(
    ("name", "flags", "command"),
    [
        ("quick", {"seed": 7}, "highwater run quick --seed 7"),
        (
            "quick",
            {"seed": 7, "nodes": 5, "broker_module": "some.broker"},
            "highwater run quick --seed 7 --nodes 5 --broker-module some.broker",
        ),
        ("simulation", {"seed": 3, "target": "sim"}, "highwater simulate simulation --seeds 3..3"),
        ("quick", {"seed": 7, "faults": ["kill"]}, ""),
    ],
)
def test_run_of_a_packaged_plan_can_be_repeated_without_its_directory(
    tmp_path: Path, name: str, flags: dict[str, Any], command: str
) -> None:
    """If these options make exactly the same plan; otherwise only the stored plan will do."""
    made = plans.build(plans.load(name), where="test", flags=flags)
    found = replay_of(load(stored(tmp_path, made.to_json())))
    assert found.from_plan == command
    verb = "simulate" if name == "simulation" else "run"
    assert found.command == f"highwater {verb} --replay quick/20260101T000000.000Z"
    assert (found.plan, found.seed) == (name, str(flags["seed"]))


def test_run_of_a_plan_file_needs_its_directory(tmp_path: Path) -> None:
    """Its plan is nowhere else."""
    found = replay_of(load(stored(tmp_path, {"name": "mine", "seed": 3})))
    assert (found.from_plan, found.imported) == ("", False)


def test_import_can_only_be_judged_again(tmp_path: Path) -> None:
    """Another tool ran it."""
    found = replay_of(load(stored(tmp_path, {"name": "jepsen", "system": "imported"})))
    assert found.imported
    assert found.command == "highwater check quick/20260101T000000.000Z"
