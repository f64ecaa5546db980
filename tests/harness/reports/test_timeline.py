"""Leaders and faults over time: the newest epoch counts, and long runs stay bounded."""

from pathlib import Path
from typing import Any

import pyarrow.parquet

from checkers.history.history import CLUSTER, FAULTS, table
from harness.reports.data.loading import load
from harness.reports.data.tables import connect
from harness.reports.data.timeline import Timeline, read_timeline
from harness.reports.page import render
from tests.support.reports.synthetic_run import Shape, fault_rows, write_run


def leader(at_s: float, node: int | None, epoch: int, **more: Any) -> dict[str, Any]:
    return {
        "at_ns": int(at_s * 1e9), "kind": "leader", "topic": "t", "partition": 0, "leader": node,
        "leader_epoch": epoch, "isr": [1, 2, 3],
    } | more  # fmt: skip


def timeline(
    tmp_path: Path, leaders: list[dict[str, Any]], faults: list[dict[str, Any]]
) -> Timeline:
    run = tmp_path / "run"
    write_run(run, Shape(sends=60))
    pyarrow.parquet.write_table(table(CLUSTER, leaders), run / "cluster.parquet")
    pyarrow.parquet.write_table(table(FAULTS, faults), run / "faults.parquet")
    with connect(load(run)) as db:
        return read_timeline(db, 98.0)


def test_late_reports_of_old_epochs_change_nothing(tmp_path: Path) -> None:
    """An old leader may be polled after its successor."""
    found = timeline(
        tmp_path,
        [leader(1, 1, 0), leader(2, 2, 1), leader(3, 1, 0), leader(4, 2, 1, isr=[2, 3])],
        [],
    )
    (lane,) = found.lanes
    assert [(r.start_s, r.end_s, r.leader, r.isr) for r in lane.spans[:2]] == [
        (1.0, 2.0, 1, (1, 2, 3)), (2.0, 4.0, 2, (1, 2, 3)),
    ]  # fmt: skip


def test_time_without_a_leader_is_a_span_of_its_own(tmp_path: Path) -> None:
    """Between the spans of two leaders."""
    (lane,) = timeline(
        tmp_path, [leader(1, 1, 0), leader(2, -1, 1), leader(3, 2, 2), leader(4, None, 3),
                   leader(5, 2, 4)], [],
    ).lanes  # fmt: skip
    assert [r.leader for r in lane.spans] == [1, None, 2, None, 2]


def test_selector_and_selected_nodes_in_words(tmp_path: Path) -> None:
    """With the cut connections; odd content stays as it is."""
    rows = [row | {"targets": text} for row, text in zip(
        fault_rows(), (
            '{"asked": "one", "nodes": [2], "cuts": [[1, 2, 0], [2, 1, 9093]]}', "[1, 3]", "oops",
            None,
        ),
        strict=False,
    )]  # fmt: skip
    found = timeline(tmp_path, [], rows).faults
    assert [(f.selector, f.resolved) for f in found] == [
        ("one", "node 2; cut 1→2, 2→1 port 9093"), ("", "nodes 1, 3"), ("", "oops"), ("", ""),
    ]  # fmt: skip


def test_fault_table_shows_the_proof_of_the_heal(tmp_path: Path) -> None:
    """What was measured after the heal, and how long doing and undoing took."""
    timeline(tmp_path, [], fault_rows()[:1])
    text = render(tmp_path / "run")
    assert "<td>everything is as it was</td>" in text
    assert "<small>in 1.25 ms</small>" in text
    assert "<small>in 31.5 ms</small>" in text


def test_fault_that_would_change_nothing_counts_as_not_injected(tmp_path: Path) -> None:
    """It has a start, but no heal, and must not be drawn to the end of the run."""
    without_effect = fault_rows()[0] | {
        "healed_ns": None, "took_effect": False, "error": "not injected: node 1 is not running",
    }  # fmt: skip
    found = timeline(tmp_path, [], [without_effect]).faults
    assert [fault.injected for fault in found] == [False]


def test_long_run_stays_a_small_file(tmp_path: Path) -> None:
    """More partitions, changes and faults than can be drawn: bounded, counted, said."""
    leaders = [
        leader(n * 0.03, 1 + (n + p) % 3, n, partition=p) for p in range(600) for n in range(60)
    ]
    faults = [fault_rows()[0] | {"fault_id": n, "started_ns": n * 10**7} for n in range(1_200)]
    found = timeline(tmp_path, leaders, faults)
    assert (len(found.lanes), found.lanes_left_out) == (500, 100)
    assert (len(found.faults), found.faults_left_out) == (1_000, 200)
    text = render(tmp_path / "run")
    assert len(text.encode()) < 2_000_000
    assert "100 partitions with the fewest leader changes are not in this page" in text
    assert "only the last is drawn" in text
    assert "200 later faults are in faults.parquet" in text
