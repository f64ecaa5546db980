"""Completing a run directory and judging it."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from harness.judging import judge
from harness.recording import store
from harness.recording.journal import Journal
from harness.recording.store import Run, StoreError
from tests.harness.cli.test_analyze import stored
from tests.support.histories.story import healthy


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that has only a plan."""
    run = store.create(tmp_path / "store", "test", versions={}, commit=None)
    run.write_json("plan.json", {"name": "test", "topics": [{"name": "t", "acks": 1}]})
    return run


@pytest.mark.parametrize(
    ("answer", "outcomes", "code"),
    [
        ("VALID", [], 0),
        ("VALID", ["passed"], 0),
        ("VALID", ["passed", "unknown"], 2),
        ("VALID", ["unknown", "failed"], 1),
        ("UNKNOWN", ["passed"], 2),
        ("UNKNOWN", ["failed"], 1),
        ("INVALID", ["passed"], 1),
    ],
)
def test_exit_codes(answer: str, outcomes: list[str], code: int) -> None:
    """1 when anything surely failed; 0 only when everything is decided."""
    expected = [{"outcome": outcome} for outcome in outcomes]
    assert judge.exit_code({"verdict": answer, "expectations": expected}) == code


def test_more_expectations_can_be_given_for_a_stored_run(tmp_path: Path) -> None:
    """The plan's own expectations and the plan stay."""
    story = healthy()
    story.plan["expect"] = ["lost.acks-all = 0"]
    run_dir = Path(stored(tmp_path, story))
    verdict = judge.check(run_dir, expect=["publish_p99_ms <= 0"])
    assert [(row["expectation"], row["outcome"]) for row in verdict["expectations"]] == [
        ("lost.acks-all = 0", "passed"),
        ("publish_p99_ms <= 0", "failed"),
    ]
    assert json.loads((run_dir / "plan.json").read_text())["expect"] == ["lost.acks-all = 0"]
    page = judge.write_report(run_dir).read_text()
    assert "expectation failed" in page
    assert '<section class="verdict unmet"' in page


def journal_of(run: Run, registry: Path) -> Journal:
    """The run's journal in a registry of the test."""
    registry.mkdir()
    return Journal.create(run.path / "journal.jsonl", run_id=run.run_id, registry=registry)


def test_run_of_a_living_harness_is_not_sealed(run: Run, tmp_path: Path) -> None:
    """Sealing would remove the streams that the harness still writes."""
    stream = run.faults_stream()
    with journal_of(run, tmp_path / "registry"), pytest.raises(StoreError, match="still goes on"):
        judge.check(run.path)
    assert stream.path.exists()
    stream.close()


def test_faults_of_a_killed_harness_come_from_its_journal(run: Run, tmp_path: Path) -> None:
    """Faults in force at the harness's death get rows, with the proof that the journal has."""
    stream = run.faults_stream()
    stream.append_named(fault_id=0, fault="kill", took_effect=True)
    stream.close()
    with journal_of(run, tmp_path / "registry") as journal:
        said = {"fault": "pause", "label": "pause node 2", "planned_ms": 5, "nodes": [2]}
        journal.record("fault", fault_id=0, at_ns=1, fault="kill", label="kill", planned_ms=1)
        for number in (1, 2):
            journal.record("fault", fault_id=number, at_ns=10 * number, **said)
        journal.record("fault-effective", fault_id=1, at_ns=11, effect="node 2 in state T")
        journal.record("fault-healed", fault_id=1, at_ns=12)
    judge.check(run.path)
    rows = pyarrow.parquet.read_table(run.path / "faults.parquet").to_pylist()
    assert [row["fault_id"] for row in rows] == [0, 1, 2]
    assert [row["took_effect"] for row in rows] == [True, True, False]
    assert (rows[1]["started_ns"], rows[1]["effective_ns"], rows[1]["healed_ns"]) == (10, 11, 12)
    assert json.loads(rows[1]["targets"]) == {"nodes": [2]}
    assert rows[2]["healed_ns"] is None
    assert "from its journal" in rows[2]["error"]


def test_judging_twice_gives_the_same_verdict(run: Run) -> None:
    """A stored run can be judged again at any time."""
    first, second = (judge.check(run.path) for _ in range(2))
    first.pop("checked_at"), second.pop("checked_at")
    for detector in (*first["detectors"], *second["detectors"]):
        detector.pop("seconds")
    assert first == second


def test_report_needs_a_verdict(run: Run) -> None:
    """The error says which command to run first."""
    with pytest.raises(StoreError, match="highwater check"):
        judge.write_report(run.path)


@pytest.mark.parametrize("torn", [b"torn" * 99, b""])
def test_truncated_stream_is_reported_after_it_was_sealed_too(tmp_path: Path, torn: bytes) -> None:
    """Its lost rows stay unknown, however often the run is judged."""
    run_dir = Path(stored(tmp_path, healthy()))
    (run_dir / "history" / "torn.arrows").write_bytes(torn)
    for _ in range(2):
        verdict = judge.check(run_dir)
        assert verdict["verdict"] == "UNKNOWN"
        assert verdict["reasons"] == [
            "failed check: every history ended in order: cut streams: torn.arrows"
        ]
        assert not list((run_dir / "history").glob("*.arrows"))


def test_damaged_table_is_reported_by_verdict_and_page(tmp_path: Path) -> None:
    """The page leaves out the parts that it cannot draw."""
    run_dir = Path(stored(tmp_path, healthy()))
    (path,) = (run_dir / "history").glob("*.parquet")
    damaged = bytearray(path.read_bytes())
    damaged[100:400] = b"\xff" * 300
    path.write_bytes(damaged)
    assert judge.check(run_dir)["verdict"] == "UNKNOWN"
    page = judge.write_report(run_dir).read_text()
    assert "UNKNOWN" in page
    assert "The recorded tables cannot be read" in page


@pytest.mark.parametrize("name", ["faults", "cluster", "replicas"])
@pytest.mark.parametrize("kept", [0, 0.5, 0.99])
def test_truncated_table_gives_an_unknown_verdict_and_a_page(
    tmp_path: Path, name: str, kept: float
) -> None:
    """Both name the file."""
    run_dir = Path(stored(tmp_path, healthy()))
    path = run_dir / f"{name}.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    verdict = judge.check(run_dir)
    assert verdict["verdict"] == "UNKNOWN"
    assert f"{name}.parquet" in verdict["reasons"][0]
    page = judge.write_report(run_dir).read_text()
    assert "UNKNOWN" in page
    assert f"{name}.parquet: is no readable Parquet file" in page


def test_page_shows_how_far_polls_were_behind(tmp_path: Path) -> None:
    """It stands under the topic's row."""
    run_dir = Path(stored(tmp_path, healthy()))
    verdict = judge.check(run_dir)
    verdict["topics"][0] |= {"stale_polls": 7, "stale_p50_ms": 1.0, "stale_max_ms": 30.0}
    (run_dir / "verdict.json").write_text(json.dumps(verdict))
    assert "7 stale polls" in judge.write_report(run_dir).read_text()


def test_verdict_needs_neither_plans_nor_pages_nor_targets() -> None:
    """Their imports take longer than judging an ordinary run."""
    names = ("harness.plans.plan", "harness.reports.page", "harness.targets.clean", "pyroute2")
    code = "import sys, harness.judging.judge; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not set(names) & set(found.stdout.split())


_WITHOUT_PANDAS = """
import sys
from harness.cli.main import main
try:
    main()
finally:
    assert "harness.reports.page" in sys.modules and "pandas" not in sys.modules
"""


def test_judging_and_reporting_do_not_import_pandas(tmp_path: Path) -> None:
    """Importing pandas takes longer than judging an ordinary run."""
    path = Path(stored(tmp_path, healthy()))
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_PANDAS, "check", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (path / "report.html").is_file()
    assert "Traceback" not in done.stderr
