"""Stored runs in Jepsen's form and back: the same anomalies, as often."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from checkers.check import check
from checkers.history.history import load_plan
from checkers.interchange.jepsen_export import to_ops
from checkers.verdict import Verdict
from harness.recording import imports
from tests.checkers.interchange.test_round_trip import TIMES, WITHOUT_A_FORM, back, places
from tests.support.checkers.judge_imports import judged

RUNS = 10


def counted(verdict: Verdict) -> Counter[tuple[str, str | None]]:
    """How often each anomaly that Jepsen's form can show was found."""
    found: Counter[tuple[str, str | None]] = Counter()
    for anomaly in verdict.anomalies:
        if anomaly.kind not in {*TIMES, *WITHOUT_A_FORM}:
            found[anomaly.kind, anomaly.aspect] += anomaly.count
    return found


@pytest.mark.slow
@pytest.mark.nightly(
    "checkers/interchange/test_round_trip.py::test_golden_histories_there_and_back"
)
def test_exported_simulated_runs_import_with_equal_anomalies(tmp_path: Path) -> None:
    """Ten clusters, clients and faults, drawn from their seeds."""
    subprocess.run(
        [
            sys.executable, "-m", "harness.cli.main", "simulate", "--swarm",
            "--seeds", f"1..{RUNS}",
            "--duration", "6", "--trace", "--keep-going", "--store", str(tmp_path),
        ],
        check=True, capture_output=True, timeout=600,
    )  # fmt: skip
    runs = sorted((tmp_path / "simulation").iterdir())
    assert len(runs) == RUNS
    shown: Counter[tuple[str, str | None]] = Counter()
    for run_dir in runs:
        run, rows = imports.rows_of(run_dir)
        there = to_ops(rows, load_plan(run.path))
        before, after = check(run.path), judged(back(there.ops, "t"))
        here = [("t", key) for key in range(len(there.keys))]
        assert places(before, there.keys) == places(after, here), run_dir
        assert counted(before) == counted(after), run_dir
        shown += counted(before)
    assert len(shown) > 4, shown
