"""Runs that once showed something wrong stay right."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.plans.plan import Plan
from harness.simulation.campaign import Task, run_seed
from tests.support.tiers import in_turn

HERE = Path(__file__).parent
SEEDS: list[dict[str, Any]] = tomllib.loads((HERE / "corpus.toml").read_text())["seed"]


@pytest.mark.parametrize(
    "kept",
    in_turn(
        "harness/simulation/test_corpus.py::test_seed_that_once_accused_the_broker_is_valid",
        SEEDS,
        of=12,
    ),
    ids=lambda kept: str(kept["number"]),
)
def test_seed_that_once_accused_the_broker_is_valid(kept: dict[str, Any], tmp_path: Path) -> None:
    """Each plan of the corpus once showed an error of the broker, the harness or the checkers."""
    seed = kept["number"]
    plan = Plan.from_json(json.loads((HERE / f"corpus/{seed}.json").read_text()), f"seed {seed}")
    result = run_seed(Task(plan=plan, root=tmp_path), seed)
    assert result.outcome == kept.get("outcome", "VALID"), (kept["why"], result.reasons)
