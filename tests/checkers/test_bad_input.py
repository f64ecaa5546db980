"""Whatever a crash, a bad disk or a foreign tool left behind: a clear error or UNKNOWN, never more.

Never a traceback, never VALID, and never a forbidden anomaly that is only the cut's.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from checkers.check import check
from checkers.contract.contract import Judgement
from checkers.history.history import HISTORY, HistoryError, load_plan, load_run, table
from checkers.verdict import Outcome, Status, Verdict
from tests.support.histories.multiplex import multiplex
from tests.support.histories.story import ALL, PRODUCER, S, Story, healthy, v


def cut_stories(step: int) -> Iterator[Story]:
    """The healthy run, with the rows of one client cut after each `step`-th of them; the first is
    on disk before a client has any effect."""
    for client in sorted({row["client"] for row in healthy().history}):
        mine = [row for row in healthy().history if row["client"] == client]
        for kept in range(1, len(mine), step):
            story = healthy()
            gone = [row for row in story.history if row["client"] == client][kept:]
            story.history = [row for row in story.history if not any(row is g for g in gone)]
            yield story


def assert_cuts_accuse_nobody(step: int) -> None:
    """All of them judged as one run: UNKNOWN, and nothing is forbidden."""
    story = multiplex(list(cut_stories(step)))
    verdict = check(story.sources(), story.plan)
    assert not [r for r in verdict.detectors if r.status is Status.CRASHED]
    accused = [a for a in verdict.anomalies if a.judgement is Judgement.FORBIDDEN]
    assert not accused, [a.as_json() for a in accused]
    assert verdict.outcome is Outcome.UNKNOWN
    assert "every history ended in order" in "; ".join(verdict.reasons)


def test_recorders_cut_anywhere() -> None:
    """A recorder that died early proves nothing against the cluster."""
    assert_cuts_accuse_nobody(step=7)


@pytest.mark.slow
def test_recorders_cut_everywhere() -> None:
    """After every single row."""
    assert_cuts_accuse_nobody(step=1)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with a lost write, its history an unsealed stream of small batches."""
    story = healthy()
    story.forget(topic=ALL, values={v(ALL, 12)})
    (tmp_path / "history").mkdir()
    (tmp_path / "plan.json").write_text(json.dumps(story.plan))
    for name, rows in story.tables().items():
        if name != "history":
            pyarrow.parquet.write_table(rows, tmp_path / f"{name}.parquet")
    path = tmp_path / "history" / "1.arrows"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, HISTORY) as out:
        for batch in story.tables()["history"].to_batches(max_chunksize=25):
            out.write_batch(batch)
    return tmp_path


def judged(run_dir: Path) -> Verdict:
    """The verdict, of which no part may have failed without saying so."""
    verdict = check(run_dir)
    assert verdict.reasons
    return verdict


def test_stream_cut_in_its_last_batch(run_dir: Path) -> None:
    """A lost write that the record shows stays one; a cut does not make the run VALID."""
    path = run_dir / "history" / "1.arrows"
    path.write_bytes(path.read_bytes()[:-9])
    verdict = judged(run_dir)
    assert verdict.outcome is not Outcome.VALID
    assert "cut streams: 1.arrows" in "; ".join(verdict.reasons)


@pytest.mark.slow
def test_stream_cut_at_any_byte(run_dir: Path) -> None:
    """At no byte does a cut make a run VALID, or the healthy part of it INVALID."""
    path = run_dir / "history" / "1.arrows"
    whole = path.read_bytes()
    seen = set()
    for size in range(0, len(whole), 512):
        path.write_bytes(whole[:size])
        rows = sum(
            source.num_rows for source in load_run(run_dir).history if isinstance(source, pa.Table)
        )
        if rows not in seen:  # the verdict depends on the whole batches alone
            seen.add(rows)
            verdict = judged(run_dir)
            assert verdict.outcome is not Outcome.VALID, size
            kinds = {a.kind for a in verdict.anomalies if a.judgement is Judgement.FORBIDDEN}
            assert kinds <= {"lost-write"}
    assert len(seen) > 8


def test_stream_of_a_producer_that_is_lost_whole(run_dir: Path) -> None:
    """Nothing of it reached the disk: its records are no phantoms."""
    story = healthy()
    theirs = [row for row in story.history if row["client"] == PRODUCER[ALL]]
    story.history = [row for row in story.history if row["client"] != PRODUCER[ALL]]
    path = run_dir / "history" / "1.arrows"
    path.unlink()
    pyarrow.parquet.write_table(story.tables()["history"], path.with_suffix(".parquet"))
    (run_dir / "history" / "2.arrows").write_bytes(b"\xff\xff")
    verdict = judged(run_dir)
    assert verdict.outcome is Outcome.UNKNOWN
    assert {a.kind for a in verdict.anomalies} >= {"unrecorded"}
    assert len(theirs) > 20


def test_truncated_parquet_is_named(run_dir: Path) -> None:
    """Every prefix of a sealed file is an error that names it."""
    path = run_dir / "cluster.parquet"
    whole = path.read_bytes()
    for size in range(0, len(whole), 101):
        path.write_bytes(whole[:size])
        with pytest.raises(HistoryError, match=r"cluster\.parquet: is no readable Parquet"):
            load_run(run_dir)


def test_damaged_pages_are_unknown(run_dir: Path) -> None:
    """A file whose schema can be read and whose rows cannot: no detector that needs it says more
    than that."""
    path = run_dir / "replica_ends.parquet"
    whole = bytearray(path.read_bytes())
    whole[4:200] = b"\xff" * 196
    path.write_bytes(whole)
    verdict = judged(run_dir)
    assert verdict.outcome is not Outcome.VALID
    assert "failed" in "; ".join(verdict.reasons) or any(
        result.status is Status.CRASHED for result in verdict.detectors
    )


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        ("{", "cannot be read as a plan"),
        ("[]", "expected a JSON object"),
        ('{"topics": {"a": 1}}', "topics: expected a list of objects"),
        ('{"topics": [{"acks": 1}]}', "topics: every topic needs a name"),
        ('{"topics": [{"name": "a", "partitions": "many"}]}', "partitions: expected a number"),
        ('{"workload": 3}', "workload: expected an object"),
        ('{"workload": {"processing": "twice"}}', "processing: expected one of at-most-once"),
        ('{"more_workloads": {"group": "a"}}', "more_workloads: expected a list of objects"),
        ('{"more_workloads": [{"processing": "twice"}]}', "workload.processing: expected"),
        ('{"more_workloads": [{"transaction_timeout_ms": "1"}]}', "expected a number, found '1'"),
        ('{"bounds": {"unavailable_ms": "long"}}', "bounds.unavailable_ms: expected a number"),
    ],
)
def test_plans_that_are_none(run_dir: Path, plan: str, error: str) -> None:
    """What is wrong with a plan is said before anything is judged by it."""
    (run_dir / "plan.json").write_text(plan)
    with pytest.raises(HistoryError, match=error):
        load_plan(run_dir)


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"type": "maybe"}, "1 rows are neither ok, fail nor info"),
        ({"topic": None}, "1 sends have no value or no topic"),
        ({"value": None}, "1 sends have no value or no topic"),
    ],
)
def test_rows_that_make_no_sense(change: dict[str, Any], because: str) -> None:
    """A row that cannot be judged is not passed over."""
    story = healthy()
    story.rows("send", ALL)[3].update(change)
    verdict = check(story.sources(), story.plan)
    assert verdict.outcome is not Outcome.VALID
    assert because in "; ".join(verdict.reasons), verdict.reasons


def forbidden(verdict: Verdict) -> list[dict[str, Any]]:
    """What a verdict holds against somebody."""
    return [a.as_json() for a in verdict.anomalies if a.judgement is Judgement.FORBIDDEN]


@pytest.mark.parametrize("read", [False, True])
def test_a_value_that_the_workload_sent_twice(read: bool) -> None:
    """What is found of it may be the workload's own doing; of other values it is not."""
    story = healthy()
    story.send(ALL, 3, 20, 25)
    if read:
        story.read_in_the_end(ALL, 20, v(ALL, 3))
    verdict = check(story.sources(), story.plan)
    assert verdict.outcome is Outcome.UNKNOWN
    assert not forbidden(verdict)
    reasons = "; ".join(verdict.reasons)
    assert "1 values were sent more than once" in reasons
    assert "(the workload sent the value twice" in reasons
    story.forget(topic=ALL, values={v(ALL, 12)})
    assert [a["kind"] for a in forbidden(check(story.sources(), story.plan))] == ["lost-write"]


@pytest.mark.parametrize(
    ("shift_s", "f", "because"),
    [
        (
            -1000,
            "send",
            "1 operations end before they begin, or before the run; 1 clients did something",
        ),
        (1000, "poll", "1 clients did something before their start or after their end"),
    ],
)
def test_clocks_that_jump(shift_s: int, f: str, because: str) -> None:
    """Nobody is accused of an order that only a clock tells."""
    story = healthy()
    row = story.rows(f, ALL)[3]
    row["invoke_ns"] += shift_s * S
    row["complete_ns"] += shift_s * S
    verdict = check(story.sources(), story.plan)
    assert verdict.outcome is Outcome.UNKNOWN, verdict.reasons
    assert not forbidden(verdict)
    reasons = "; ".join(verdict.reasons)
    assert because in reasons
    assert "detector reordered-ack nothing-to-judge: clocks went backwards" in reasons


def test_nulls_where_a_value_is_needed(run_dir: Path) -> None:
    """A foreign file may have them; its own statistics say so."""
    path = run_dir / "faults.parquet"
    rows = pyarrow.parquet.read_table(path)
    empty = pa.nulls(rows.num_rows, pa.int32())
    pyarrow.parquet.write_table(rows.set_column(0, "fault_id", empty), path)
    with pytest.raises(HistoryError, match="'fault_id' is required and has empty rows"):
        load_run(run_dir)


def test_history_without_rows() -> None:
    """An empty history is no proof of anything."""
    story = healthy()
    story.history.clear()
    assert table(HISTORY, story.history).num_rows == 0
    assert check(story.sources(), story.plan).outcome is Outcome.UNKNOWN
