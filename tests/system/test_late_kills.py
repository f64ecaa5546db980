"""A node that somebody else kills after the cluster settled is named, and accuses nobody."""

from pathlib import Path

import pytest

from tests.support.require import require
from tests.support.tiers import in_turn
from tests.tools.late_kills import run_and_kill

PLAN = "tests/scenarios/one-kill.toml"


@pytest.mark.parametrize(
    ("after_s", "node"),
    in_turn(
        "system/test_late_kills.py::test_a_node_killed_after_settling_is_named_and_no_run_invalid",
        [(0.0, 1), (0.4, 2), (1.0, 3)],
        of=3,
    ),
)
def test_a_node_killed_after_settling_is_named_and_no_run_invalid(
    tmp_path: Path, after_s: float, node: int
) -> None:
    """`python -m tests.tools.late_kills` is the full measure."""
    require("netns")
    late = run_and_kill(PLAN, tmp_path / "store", after_s, node)
    assert late.well, f"{late}\n{late.said}"
