"""Stored runs in Jepsen's form and back: the same anomalies, as often."""

import subprocess
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from checkers.check import check
from checkers.history.history import load_plan
from checkers.interchange.jepsen_export import to_ops
from checkers.verdict import Verdict
from harness.recording import imports
from tests.checkers.interchange.test_round_trip import TIMES, WITHOUT_A_FORM, back, places
from tests.support.checkers.judge_imports import judged

RUNS = 10


def with_a_form(partition: tuple[str, int], plan: dict[str, Any]) -> bool:
    """Whether Jepsen's form has the partition's writes. It has none for writes of keys."""
    keyed = {
        topic
        for workload in plan["more_workloads"]
        if workload["kind"] == "compacted"
        for topic in workload["topics"]
    }
    return partition[0] not in keyed


def counted(
    verdict: Verdict, partitions: Collection[tuple[str, int]]
) -> Counter[tuple[str, str | None]]:
    """How often each anomaly that Jepsen's form can show was found in these partitions."""
    found: Counter[tuple[str, str | None]] = Counter()
    for anomaly in verdict.anomalies:
        there = anomaly.topic is None or (anomaly.topic, anomaly.partition) in partitions
        if there and anomaly.kind not in {*TIMES, *WITHOUT_A_FORM}:
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
        plan = load_plan(run.path)
        there = to_ops(rows, plan)
        before, after = check(run.path), judged(back(there.ops, "t"))
        compared = [
            (partition, ("t", key))
            for key, partition in enumerate(sorted(there.keys))
            if with_a_form(partition, plan)
        ]
        old, new = ([each[side] for each in compared] for side in (0, 1))
        assert places(before, old) == places(after, new), run_dir
        assert counted(before, old) == counted(after, new), run_dir
        shown += counted(before, old)
    assert len(shown) > 4, shown
