"""A check always ends in a verdict: of cut runs, with broken detectors, beyond its time."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

import checkers.check
from checkers.check import EXAMPLES, _detect, check
from checkers.detectors.registry import DETECTORS, Detector
from checkers.engines.engine import DuckDbEngine
from checkers.frames.census import take_census
from checkers.frames.frames import Frames
from checkers.history.history import HISTORY, HistoryError
from checkers.topics import nearest_rank_ms
from checkers.verdict import Outcome, Status
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.story import ALL, ONE, healthy, v
from tests.support.require import require
from tests.support.tiers import at_turn, nightly


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """The healthy run as a directory."""
    story = healthy()
    (tmp_path / "history").mkdir()
    (tmp_path / "plan.json").write_text(json.dumps(story.plan))
    (tmp_path / "run.json").write_text(json.dumps(asdict(story.run_file)))
    for name, rows in story.tables().items():
        folder = tmp_path / "history" if name == "history" else tmp_path
        pyarrow.parquet.write_table(rows, folder / f"{name}.parquet")
    return tmp_path


def test_run_directory_is_judged_by_its_own_plan(run_dir: Path) -> None:
    """Nothing but the directory is needed."""
    verdict = check(run_dir)
    assert verdict.outcome is Outcome.VALID, verdict.reasons
    numbers = {topic["topic"]: topic for topic in verdict.topics}
    assert numbers["all"] == {
        "topic": "all", "acks": -1, "idempotence": True, "sent": 20, "acked": 20, "failed": 0,
        "indeterminate": 0, "lost": 0, "lost_permitted": 0, "lost_forbidden": 0, "duplicated": 0,
        "reordered": 0, "p50_ms": 1.0, "p99_ms": 1.0, "loss_causes": [],
        "stale_polls": 0, "stale_p50_ms": None, "stale_p99_ms": None, "stale_max_ms": None,
    }  # fmt: skip


def test_every_detector_is_announced(run_dir: Path) -> None:
    """In the order of the registry, with its number."""
    told: list[tuple[str, int, int]] = []
    check(run_dir, on_detector=lambda *step: told.append(step))
    assert [name for name, _, _ in told] == [each.name for each in DETECTORS]
    assert [(number, of) for _, number, of in told] == [
        (number, len(DETECTORS)) for number in range(1, len(DETECTORS) + 1)
    ]


def test_how_stale_reads_were() -> None:
    """Of a write that was acknowledged at 16.401 s, two polls end short, at 17 s and at 17.5 s."""
    story = healthy()
    story.send(ALL, 98, 20, 16.4)
    story.read_in_the_end(ALL, 20, v(ALL, 98))
    (last,) = [row for row in story.rows("poll", ALL) if row["offset"] == 19]
    story.row("start", 99, 0)
    story.poll(ALL, 17.5, {19: last["value"]}, client=99)
    story.poll(ALL, 18, {20: v(ALL, 98)})
    story.row("end", 99, 61)
    verdict = check(story.sources(), story.plan)
    (told,) = [topic for topic in verdict.topics if topic["topic"] == ALL]
    stale = {name: value for name, value in told.items() if name.startswith("stale")}
    assert stale == {
        "stale_polls": 2, "stale_p50_ms": 599.0, "stale_p99_ms": 1090.0, "stale_max_ms": 1090.0
    }  # fmt: skip


def test_writes_of_a_compacted_topic_have_latencies() -> None:
    """As the sends to any other topic."""
    story = ALL_GOLDEN["nothing_of_a_compacted_topic_is_cleaned"].story()
    told = {topic["topic"]: topic for topic in check(story.sources(), story.plan).topics}
    assert [(told[name]["acked"], told[name]["p50_ms"]) for name in (ALL, ONE)] == [
        (20, 1.0), (20, 1.0)
    ]  # fmt: skip


def test_unfinished_settling_is_unknown(run_dir: Path) -> None:
    """run.json says that the run never settled, whatever the cluster's record looks like."""
    (run_dir / "run.json").write_text(json.dumps({"finished": ["warmup", "chaos"]}))
    verdict = check(run_dir)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "did not finish its settle phase" in "; ".join(verdict.reasons)


def test_harness_killed_in_the_middle(run_dir: Path) -> None:
    """A cut stream and missing tables give UNKNOWN with the reasons, and no phantoms."""
    path = run_dir / "history" / "history.parquet"
    rows = pyarrow.parquet.read_table(path)
    path.unlink()
    stream = path.with_suffix(".arrows")
    with pa.OSFile(str(stream), "wb") as sink, pa.ipc.new_stream(sink, HISTORY) as out:
        for batch in rows.to_batches(max_chunksize=20):
            out.write_batch(batch)
    stream.write_bytes(stream.read_bytes()[: stream.stat().st_size // 2])
    for name in ("cluster", "replicas", "replica_ends"):
        (run_dir / f"{name}.parquet").unlink()
    verdict = check(run_dir)
    assert verdict.outcome is Outcome.UNKNOWN, verdict.reasons
    told = "; ".join(verdict.reasons)
    assert "missing: cluster, replicas, replica_ends" in told
    assert "cut streams: history.arrows" in told


def test_crashing_detector_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """One detector's failure leaves the others their say."""

    def explode(frames: Any) -> Any:
        raise RuntimeError("boom\nwith a long story")

    broken = Detector(name="broken", find=explode, lacking=lambda _: None)
    monkeypatch.setattr(checkers.check, "DETECTORS", (broken, *DETECTORS))
    story = healthy()
    verdict = check(story.sources(), story.plan)
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.reasons == ("detector broken crashed: RuntimeError: boom",)
    others = [r.status for r in verdict.detectors[1:]]
    assert len(others) == len(DETECTORS)
    assert set(others) == {Status.OK, Status.NOTHING_TO_JUDGE}


def test_time_bound_is_kept() -> None:
    """A detector beyond its time is stopped and said to be unknown, not waited for."""
    engine = DuckDbEngine()
    story = healthy()
    slow = "SELECT count(*) FROM range(1000000) a, range(1000000) b"

    def dawdle(frames: Any) -> Any:
        engine._connection.execute(slow).fetchall()

    detector = Detector(name="slow", find=dawdle, lacking=lambda _: None)
    frames = Frames(engine, story.sources(), story.plan)
    result = _detect(detector, frames, take_census(frames), settled=True, timeout_s=0.5)
    assert (result.status, result.decisive) == (Status.CRASHED, True)
    assert "took longer than 0.5 s" in result.detail
    engine.close()


def test_time_bound_grows_with_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of a long history is not stuck because a short one would be."""
    story, engine = healthy(), DuckDbEngine()
    bounds: list[float] = []
    bounded = engine.bounded

    def noted(seconds: float) -> Any:
        bounds.append(seconds)
        return bounded(seconds)

    monkeypatch.setattr(engine, "bounded", noted)
    rows = len(story.history)
    check(story.sources(), story.plan, engine, detector_timeout_s=100)
    assert bounds[0] == 100
    assert set(bounds[1:]) == {100 + rows * checkers.check.ROW_S}
    engine.close()


def test_an_error_of_java_is_told_by_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first line here says only which call had it."""

    class JavaError(Exception):
        java_exception = "org.apache.spark.SparkException: no space left\n\tat org.apache"

    def explode(frames: Any) -> Any:
        raise JavaError("An error occurred while calling o1.count")

    broken = Detector(name="broken", find=explode, lacking=lambda _: None)
    monkeypatch.setattr(checkers.check, "DETECTORS", (broken,))
    story = healthy()
    (reason,) = check(story.sources(), story.plan).reasons
    assert reason.endswith("JavaError: org.apache.spark.SparkException: no space left")


def test_two_engines_at_once() -> None:
    """Checks that overlap do not take over each other's database."""
    first, second = DuckDbEngine(), DuckDbEngine()
    good, bad = healthy(), healthy()
    bad.forget(topic=ALL, values={bad.rows("send", ALL)[5]["value"]})
    frames = Frames(first, good.sources(), good.plan)
    before = first.rows(frames.sends)
    assert check(bad.sources(), bad.plan, second).outcome is Outcome.INVALID
    assert check(good.sources(), good.plan, first).outcome is Outcome.VALID
    assert first.rows(frames.sends) == before
    first.close()
    second.close()


def test_examples_are_bounded_and_counts_are_not() -> None:
    """A thousand lost writes are a thousand, of which twenty are shown, the earliest first."""
    story = healthy()
    for sequence in range(100, 1100):
        story.send(ALL, sequence, 20 + sequence, 20 + sequence / 100)
    verdict = check(story.sources(), story.plan)
    (lost,) = [a for a in verdict.anomalies if a.kind == "lost-write"]
    assert lost.count == 1000
    assert len(lost.examples) == EXAMPLES
    assert [row["offset"] for row in lost.examples] == list(range(120, 140))
    assert verdict.topics[2]["lost_forbidden"] == 1000


def test_no_run_is_an_error(tmp_path: Path) -> None:
    """What is no run gets no verdict."""
    with pytest.raises(HistoryError):
        check(tmp_path)


def test_percentiles_by_nearest_rank() -> None:
    """The smallest value that is at least as great as p percent of all."""
    assert nearest_rank_ms([(1000, 50), (2000, 49), (9000, 1)], 50) == 1.0
    assert nearest_rank_ms([(1000, 50), (2000, 49), (9000, 1)], 99) == 2.0
    assert nearest_rank_ms([(1000, 50), (2000, 48), (9000, 2)], 99) == 9.0
    assert nearest_rank_ms([], 50) is None


AS_IN_TESTS = (
    *("--driver-java-options", "-XX:TieredStopAtLevel=1"),
    *("--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN"),
    *("--conf", "spark.sql.codegen.wholeStage=false"),
    *("--conf", "spark.sql.adaptive.enabled=false"),
    *("--conf", "spark.sql.autoBroadcastJoinThreshold=-1"),
    *("--conf", "spark.sql.constraintPropagation.enabled=false"),
)
"""Nothing is compiled or broadcast for the few rows of a test: that takes three times as long."""


@pytest.mark.slow
@at_turn(1, 4, "highwater/test_examples.py::test_the_example_on_spark_runs")
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(AS_IN_TESTS, id="interpreted"),
        pytest.param(
            (), id="as submitted", marks=nightly("checkers/test_check.py::test_spark_job")
        ),
    ],
)
def test_spark_job(settings: tuple[str, ...], run_dir: Path, tmp_path: Path) -> None:
    """Submitted to Spark, the job writes one verdict per run and exits by the worst."""
    require("java")
    submit = Path(sys.executable).with_name("spark-submit")
    job = Path(checkers.check.__file__).with_name("job.py")
    output = tmp_path / "verdicts"
    done = subprocess.run(
        [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false",
         "--conf", "spark.driver.bindAddress=127.0.0.1",
         "--conf", "spark.driver.host=127.0.0.1",
         "--conf", "spark.sql.shuffle.partitions=1", *settings, job, run_dir, "--out", output],
        capture_output=True, text=True, timeout=900, check=False,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    verdict = json.loads((output / "verdicts" / "0.json").read_text())
    assert (verdict["verdict"], verdict["engine"]) == ("VALID", "spark")
