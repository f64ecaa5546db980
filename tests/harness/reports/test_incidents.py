"""Instances of anomalies: ordered, bounded, with the evidence about them and no other."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from harness.reports.data import incidents, node_logs, operations
from harness.reports.data.incidents import list_anomalies, operation_name, value_name
from harness.reports.data.loading import load
from harness.reports.data.node_logs import read_node_logs
from harness.reports.data.tables import connect
from harness.reports.page import render
from tests.support.reports.blocks import block, unpacked
from tests.support.reports.lossy_run import PARTITION, TOPIC, lossy_run


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that lost something, for tests that only read it."""
    return lossy_run(tmp_path_factory.mktemp("report") / "run")


def anomaly(judgement: str, kind: str, *times_ns: int) -> dict[str, Any]:
    return {
        "kind": kind, "judgement": judgement, "count": len(times_ns), "topic": "t", "partition": 0,
        "examples": [{"invoke_ns": at_ns} for at_ns in times_ns],
    }  # fmt: skip


def test_gravest_instances_come_first_then_the_earliest() -> None:
    """In any order of the verdict; entries that are no objects are skipped."""
    found = list_anomalies(
        {"anomalies": [anomaly("permitted", "lost-write", 1), "odd",
                       anomaly("forbidden", "duplicate", 2), anomaly("forbidden", "lost-write", 9),
                       anomaly("forbidden", "lost-write", 5)]}
    )  # fmt: skip
    assert [row["invoke_ns"] for row in found.instances] == [5, 9, 2, 1]
    assert [group["judgement"] for group in found.groups] == ["forbidden"] * 3 + ["permitted"]


def test_informational_instances_are_ordered_by_length() -> None:
    """Such as unavailability and recovery."""
    rows = anomaly("informational", "recovery", 1, 2, 3)
    for row, lasted in zip(rows["examples"], (10, 30, 20), strict=True):
        row["complete_ns"] = row["invoke_ns"] + lasted
    found = list_anomalies({"anomalies": [rows]})
    assert [row["invoke_ns"] for row in found.instances] == [2, 3, 1]


def test_instances_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left out silently."""
    monkeypatch.setattr(incidents, "MAX_INSTANCES", 2)
    found = list_anomalies({"anomalies": [anomaly("forbidden", "lost-write", 1, 2, 3)]})
    assert (len(found.instances), found.left_out) == (2, 1)


def test_names_of_operations_and_values() -> None:
    """Recorder and number; other numbers stay."""
    assert operation_name((3000 << 40) + 7) == "3000-7"
    assert operation_name(7) is operation_name(None) is None
    assert value_name((3 << 32) + 9) == "3:9"
    assert [value_name(value) for value in (12, None, "odd")] == ["12", None, "odd"]


def test_evidence_covers_the_lost_offset(lossy: Path) -> None:
    """Its rows of the history, the replicas' batches around it, leader epochs, cuts."""
    page = render(lossy)
    instances = block(page, "anomalies")["instances"]
    found = block(page, "evidence")
    lost = instances["value"][0]
    assert sorted(row[0] for row in found["rows"] if row[8] == lost) == ["poll", "send"]
    offset = instances["offset"][0]
    reads = [row[9] for row in found["rows"] if row[0] == "final-read"]
    assert min(reads) == offset - incidents.NEIGHBOURS
    batches = {(row[2], row[5]) for row in found["batches"] if row[3] == offset}
    assert batches == {(1, 2), (2, 1), (3, 2)}
    assert {tuple(row[:2]) for row in found["ends"]} == {(TOPIC, PARTITION)}
    epochs = {row[2]: (row[3], row[5]) for row in found["epochs"] if row[5] is not None}
    assert epochs[2][1] == offset
    assert [row[2:] for row in found["cuts"]] == [[30_611_000, 2, offset]]


def test_evidence_has_node_logs_around_the_losses_without_secrets(lossy: Path) -> None:
    """Other lines stay in the files."""
    lines = block(render(lossy), "evidence")["lines"]
    assert [(node, at_s) for node, at_s, _ in lines] == [(3, 23.1), (3, 23.4)]
    assert lines[1][2].endswith("password=[redacted]")


def test_dated_log_lines_get_times_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line without a stamp belongs to the line before."""
    monkeypatch.setattr(node_logs, "MAX_LINES", 2)
    (tmp_path / "nodes" / "1").mkdir(parents=True)
    log = "2026-01-01T00:00:05.500 INFO a\nTraceback\n2026-01-01T00:00:06.000 INFO b\n"
    (tmp_path / "nodes" / "1" / "node.log").write_text(log)
    began = datetime(2026, 1, 1).timestamp()  # noqa: DTZ001 (nodes write no zone)
    run = {"started_wall_ns": int(began * 1e9), "monotonic_base_ns": 77}
    found = read_node_logs(tmp_path, run, [(4.0, 5.0)])
    assert found.lines == ((1, 5.5, "INFO a"), (1, 5.5, "Traceback"))
    assert found.left_out == 1


def test_sends_say_whether_the_final_reads_have_them(lossy: Path) -> None:
    """Read, not read, or not known."""
    page = render(lossy)
    columns = block(page, "operations")["columns"]
    lost = json.loads((lossy / "verdict.json").read_text())["anomalies"][0]["count"]
    acked = (columns["kind"] == 0) & (columns["type"] == 0)
    assert (columns["final_read"][acked] == 2).sum() == lost
    assert (columns["final_read"][columns["kind"] == 1] == 0).all()
    assert columns["records"].max() == 10


@pytest.mark.parametrize("limit", [900, 1])
def test_too_many_operations_share_rows_and_none_disappears(lossy: Path, limit: int) -> None:
    """Weights add up, outcomes stay apart, and the page says how coarse it is; also where one span
    of time for all does not make them few enough."""
    with connect(load(lossy)) as db:
        found = operations.pack_operations(db, 98.0, limit)
    with connect(load(lossy)) as db:
        whole = unpacked(operations.pack_operations(db, 98.0).block)["columns"]
    columns = unpacked(found.block)["columns"]
    assert found.rows == len(columns["weight"]) <= 900
    assert found.cell_s is not None
    assert columns["weight"].sum() == found.operations == len(whole["kind"]) > 3_000
    for outcome in (0, 1, 2):
        chosen = columns["type"] == outcome
        assert columns["weight"][chosen].sum() == (whole["type"] == outcome).sum()
