"""Runs that once showed something wrong stay right."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.plans.plan import Plan
from harness.simulation.campaign import Task, run_seed
from tests.support.tiers import nightly

HERE = Path(__file__).parent
SEEDS: list[dict[str, Any]] = tomllib.loads((HERE / "corpus.toml").read_text())["seed"]


OFTEN = 3
"""One seed of so many is judged at every change, the others at night."""
EACH = [
    pytest.param(
        kept,
        id=str(kept["number"]),
        marks=nightly(
            "harness/simulation/test_corpus.py::test_seed_that_once_accused_the_broker_is_valid"
        )
        if n % OFTEN
        else (),
    )
    for n, kept in enumerate(SEEDS)
]


@pytest.mark.slow
@pytest.mark.parametrize("kept", EACH)
def test_seed_that_once_accused_the_broker_is_valid(kept: dict[str, Any], tmp_path: Path) -> None:
    """Each plan of the corpus once showed an error of the broker, the harness or the checkers."""
    seed = kept["number"]
    plan = Plan.from_json(json.loads((HERE / f"corpus/{seed}.json").read_text()), f"seed {seed}")
    result = run_seed(Task(plan=plan, root=tmp_path), seed)
    assert result.outcome == kept.get("outcome", "VALID"), (kept["why"], result.reasons)
