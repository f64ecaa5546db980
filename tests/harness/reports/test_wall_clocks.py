"""How far wall clocks were set apart: every step, or the last of each moment of a long run."""

from pathlib import Path
from typing import Any

import pyarrow.parquet

from checkers.history.history import CLUSTER, table
from harness.reports.data import wall_clocks
from harness.reports.data.loading import load
from harness.reports.data.tables import connect
from harness.reports.data.wall_clocks import WallClock, WallClocks, read_wall_clocks
from tests.support.reports.synthetic_run import Shape, write_run

SPAN_S = 100.0


def clock(at_s: float, node: int, ahead_ms: float) -> dict[str, Any]:
    return {"at_ns": round(at_s * 1e9), "kind": "clock", "node": node, "ahead_ms": ahead_ms}


def read(tmp_path: Path, rows: list[dict[str, Any]]) -> WallClocks:
    run = tmp_path / "run"
    write_run(run, Shape(sends=60))
    pyarrow.parquet.write_table(table(CLUSTER, rows), run / "cluster.parquet")
    with connect(load(run)) as db:
        return read_wall_clocks(db, SPAN_S)


def test_each_clock_that_was_set_has_its_steps(tmp_path: Path) -> None:
    """In the order of time, whatever the order of the rows."""
    found = read(tmp_path, [clock(9, 2, 0), clock(3, 2, 60_000), clock(5, 1, -10)])
    assert found.crowded_s is None
    assert found.clocks == (
        WallClock(node=1, at_s=(5.0,), ahead_ms=(-10.0,)),
        WallClock(node=2, at_s=(3.0, 9.0), ahead_ms=(60_000.0, 0.0)),
    )


def test_a_run_without_clock_faults_has_none(tmp_path: Path) -> None:
    assert read(tmp_path, []) == WallClocks(clocks=(), crowded_s=None)


def test_of_too_many_steps_the_last_of_each_moment_stays(tmp_path: Path, monkeypatch: Any) -> None:
    """And how long a moment is, is said."""
    monkeypatch.setattr(wall_clocks, "MOST_CHANGES", 10)
    found = read(tmp_path, [clock(step, 1, step) for step in range(100)])
    assert found.crowded_s == 10
    assert found.clocks[0].ahead_ms == tuple(range(9, 100, 10))
