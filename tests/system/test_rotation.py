"""Long runs: histories in segments, sealed while the run goes on; lengths of time in units."""

import time
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from checkers.history.history import FAULTS, SCHEMAS, HistoryError, load_run, read_sources
from checkers.history.segments import followed_by_another
from harness.judging import judge
from harness.plans.durations import seconds
from harness.plans.errors import PlanError
from harness.recording import store
from harness.recording.history import HistoryWriter, RowStream
from harness.recording.journal import Journal
from tests.harness.cli.test_analyze import stored
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.story import Story, healthy


def rotated(run: store.Run, name: str, segments: int) -> HistoryWriter:
    """A writer at its `segments`-th segment, with one client's start in each of those before."""
    base_ns = time.monotonic_ns()
    writer = HistoryWriter(
        run.history_dir / f"{name}.arrows", writer_id=7, base_ns=base_ns, rotate_s=60.0
    )
    for client in range(segments - 1):
        writer._opened_ns = -60_000_000_000  # as if it had been open for a minute
        writer.start(client)
    return writer


def test_ended_segments_are_sealed_and_the_last_goes_on(tmp_path: Path) -> None:
    """What is over is Parquet, what is written to stays a stream, and nothing is lost."""
    run = store.create(tmp_path, "long", versions={}, commit=None)
    run.write_json("plan.json", {})
    writer = rotated(run, "acks-all.1000", 4)
    other = rotated(run, "monitor", 1)
    sealed = store.seal_ended(run)
    assert [path.name for path in sealed] == [
        f"acks-all.1000-00000{number}.parquet" for number in range(3)
    ]
    assert store.seal_ended(run) == []
    writer.start(99)
    names = sorted(path.name for path in run.history_dir.iterdir())
    assert names[3:] == ["acks-all.1000-000003.arrows", "monitor-000000.arrows"]
    assert len(load_run(run.path).history) == 5
    writer.close()
    other.close()
    store.seal(run.path)
    assert load_run(run.path).cut == ()
    assert sorted(path.suffix for path in run.history_dir.iterdir()) == [".parquet"] * 5


def test_without_rotation_one_stream(tmp_path: Path) -> None:
    """A short run keeps one stream per writer, which nobody takes for a segment."""
    writer = HistoryWriter(tmp_path / "w.arrows", writer_id=1, base_ns=time.monotonic_ns())
    writer.start(1)
    assert writer.path.name == "w.arrows"
    assert followed_by_another(tmp_path.iterdir()) == []
    writer.close()


def test_operations_stay_unique_across_segments(tmp_path: Path) -> None:
    """The numbers go on where the last segment ended."""
    run = store.create(tmp_path, "long", versions={}, commit=None)
    writer = rotated(run, "w", 3)
    assert writer.next_op() == (7 << 40) + 2
    writer.close()


@pytest.mark.parametrize(
    ("text", "length_s"),
    [("90", 90), ("2.5", 2.5), ("250ms", 0.25), ("90s", 90), ("10m", 600), ("12h", 43_200),
     ("7d", 604_800)],
)  # fmt: skip
def test_lengths_of_time(text: str, length_s: float) -> None:
    """As people write them; without a unit they are seconds."""
    assert seconds(text) == pytest.approx(length_s)


@pytest.mark.parametrize("text", ["", "d", "-1", "1w", "1 2", "1e3"])
def test_no_lengths_of_time(text: str) -> None:
    """The message says how to write one."""
    with pytest.raises(PlanError, match="no duration"):
        seconds(text)


def segmented(folder: Path, story: Story, parts: int = 3) -> Path:
    """A stored run whose cluster and faults are in so many segments, all sealed."""
    run_dir = Path(stored(folder, story))
    for name in ("cluster", "faults"):
        path = run_dir / f"{name}.parquet"
        rows = pyarrow.parquet.read_table(path)
        path.unlink()
        stream = RowStream(_made(run_dir / name) / f"{name}.arrows", SCHEMAS[name], rotate_s=60)
        size = -(-rows.num_rows // parts)
        for part in range(parts):
            for row in rows.slice(part * size, size).to_pylist():
                stream.append_named(**row)
            if part < parts - 1:
                stream._opened_ns = -(10**15)
                stream.flush()
        stream.close()
    store.seal(run_dir)
    return run_dir


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def without_times(verdict: dict[str, Any]) -> dict[str, Any]:
    """A verdict but for when it was made, and how fast."""
    kept = {name: value for name, value in verdict.items() if name != "checked_at"}
    kept["detectors"] = [{**each, "seconds": 0} for each in verdict["detectors"]]
    return kept


@pytest.mark.parametrize("name", ["most_controllers_lose_their_disks", "acks_all_loses_its_tail"])
def test_segments_are_judged_as_one_file(tmp_path: Path, name: str) -> None:
    """Verdict, causes included; and the page."""
    story = ALL_GOLDEN[name].story
    whole, cut = Path(stored(tmp_path / "whole", story())), segmented(tmp_path / "cut", story())
    assert len(load_run(cut).cluster) == len(load_run(cut).faults) == 3
    assert without_times(judge.check(cut)) == without_times(judge.check(whole))
    for run_dir in (whole, cut):
        judge.write_report(run_dir)


@pytest.mark.parametrize(
    ("name", "number", "kept"),
    [("cluster", 0, None), ("cluster", 2, None), ("cluster", 1, 0.5), ("faults", 1, None),
     ("faults", 2, 0.0)],
)  # fmt: skip
def test_a_segment_that_is_missing_or_damaged_is_told(
    tmp_path: Path, name: str, number: int, kept: float | None
) -> None:
    """Also the last one, by the mark of the one before: UNKNOWN, and the page says which it is."""
    run_dir = segmented(tmp_path, healthy())
    path = run_dir / name / f"{name}-{number:06d}.parquet"
    content = path.read_bytes()
    path.unlink()
    if kept is not None:
        path.write_bytes(content[: int(len(content) * kept)])
    verdict = judge.check(run_dir)
    assert verdict["verdict"] == "UNKNOWN"
    told = "is missing" if kept is None else "is no readable Parquet file"
    assert f"{path}: {told}" in verdict["reasons"][0]
    assert told in judge.write_report(run_dir).read_text()


def test_a_missing_segment_of_a_history_is_told(tmp_path: Path) -> None:
    """What its writer did meanwhile is not known."""
    run = store.create(tmp_path, "long", versions={}, commit=None)
    run.write_json("plan.json", {})
    rotated(run, "w", 3).close()
    store.seal(run.path)
    for number in (0, 1, 2):
        path = run.history_dir / f"w-00000{number}.parquet"
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(HistoryError, match=rf"{path.name}: is missing"):
            load_run(run.path)
        path.write_bytes(content)
    assert len(load_run(run.path).history) == 3


def test_a_killed_harness_leaves_what_it_had_written(tmp_path: Path) -> None:
    """Segments that were not sealed, one that was cut, a fault that only the journal knows."""
    run = store.create(tmp_path / "store", "long", versions={}, commit=None)
    run.write_json("plan.json", {"name": "long", "topics": [{"name": "t", "acks": 1}]})
    stream = run.faults_stream(60)
    for number in range(3):
        stream.append_named(fault_id=number, fault="kill", targets="[]", took_effect=True)
        stream._opened_ns = -(10**15)
        stream.flush()
    (tmp_path / "registry").mkdir()
    path = run.path / "journal.jsonl"
    with Journal.create(path, run_id="r", registry=tmp_path / "registry") as journal:
        for number in range(4):
            said = {"fault": "kill", "label": "kill", "planned_ms": 1, "nodes": [1]}
            journal.record("fault", fault_id=number, at_ns=number, **said)
    stream.close()
    last = run.path / "faults" / "faults-000003.arrows"
    last.write_bytes(last.read_bytes()[:-8])  # as a kill leaves it
    for _ in range(2):
        assert judge.check(run.path)["verdict"] == "UNKNOWN"
        rows = read_sources(load_run(run.path).faults, FAULTS).to_pylist()
        assert [row["fault_id"] for row in rows] == [0, 1, 2, 3]
        assert "from its journal" in rows[3]["error"]
    assert not list(run.path.glob("*/*.arrows"))


def test_a_segment_that_was_cut_before_others_is_no_whole(tmp_path: Path) -> None:
    """Its rows are lost between others: nobody knows what they said."""
    run = store.create(tmp_path, "long", versions={}, commit=None)
    run.write_json("plan.json", {})
    stream = run.cluster_stream(60)
    for number in range(2):
        stream.append_named(at_ns=number, kind="clock")
        stream._opened_ns = -(10**15)
        stream.flush()
    stream.close()
    first = run.path / "cluster" / "cluster-000000.arrows"
    first.write_bytes(first.read_bytes()[:-20])
    for _ in ("not sealed", "sealed"):
        with pytest.raises(HistoryError, match="its end is lost"):
            load_run(run.path)
        store.seal(run.path)
