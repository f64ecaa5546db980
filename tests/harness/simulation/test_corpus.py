"""Seeds that once showed something wrong stay right."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.plan import build, load
from harness.simulation.campaign import Task, run_seed

SEEDS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text())[
    "seed"
]


@pytest.mark.parametrize("kept", SEEDS, ids=lambda kept: f"{kept['number']}")
def test_it_stays_right(kept: dict[str, Any], tmp_path: Path) -> None:
    """Whatever it was that was wrong."""
    plan = build(load("simulation"), where="simulation")
    task = Task(plan=plan, root=tmp_path, seeds_are_swarms=kept["swarm"])
    result = run_seed(task, kept["number"])
    assert result.outcome == "VALID", (kept["why"], result.reasons)
