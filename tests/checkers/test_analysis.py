"""Runs judged together: what is counted of every minute, and what the tables say."""

import json
from pathlib import Path

import pyarrow.parquet
import pytest

from checkers.analysis import AGGREGATES, ANOMALIES, Analyzed, analyze_all, combined, write
from checkers.engines.engine import DuckDbEngine, EngineError
from checkers.engines.spark_sessions import is_address
from checkers.history.history import HistoryError
from checkers.job import load
from tests.support.histories.story import ALL, ONE, Story, healthy, v


def analyzed(**stories: Story) -> list[Analyzed]:
    """Each story judged and counted, in order, on the embedded engine."""
    told = {name: (story.sources(), story.plan) for name, story in stories.items()}
    return list(analyze_all(told, told.__getitem__, DuckDbEngine))


def bent() -> Story:
    """A write of acks=all is lost, another is there twice, a third failed."""
    story = healthy()
    story.forget(topic=ALL, values={v(ALL, 15)})
    story.read_in_the_end(ALL, 40, v(ALL, 18))
    story.rows("send", ONE)[3]["type"] = "info"
    return story


def test_counts_of_a_minute() -> None:
    """Each send is counted in the minute in which it began, with what was found of it."""
    [run] = analyzed(bent=bent())
    rows = {(row["topic"], row["minute"]): row for row in run.aggregates.to_pylist()}
    assert rows[ALL, 0] == {
        "run": "bent", "topic": ALL, "acks": -1, "minute": 0, "sends": 20, "acked": 20,
        "failed": 0, "info": 0, "p50_ms": 1.0, "p99_ms": 1.0, "lost": 1, "duplicates": 1,
    }  # fmt: skip
    assert (rows[ONE, 0]["sends"], rows[ONE, 0]["acked"], rows[ONE, 0]["info"]) == (20, 19, 1)


def test_minutes_add_up_to_the_topics_of_the_verdict() -> None:
    """What the minutes count together is what the verdict counts of the whole run."""
    story = bent()
    for row in story.rows("send", ALL)[10:]:
        row["invoke_ns"] += 60_000_000_000
        row["complete_ns"] += 60_000_000_000
    [run] = analyzed(bent=story)
    whole = next(topic for topic in run.verdict.topics if topic["topic"] == ALL)
    minutes = [row for row in run.aggregates.to_pylist() if row["topic"] == ALL]
    assert len(minutes) == 2
    for ours, theirs in (
        ("sends", "sent"), ("acked", "acked"), ("lost", "lost"), ("duplicates", "duplicated"),
    ):  # fmt: skip
        assert sum(row[ours] for row in minutes) == whole[theirs], ours


def test_many_runs_in_one_table(tmp_path: Path) -> None:
    """The worst run decides, and every row names its run."""
    runs = analyzed(well=healthy(), bent=bent())
    write(tmp_path, runs)
    answer = json.loads((tmp_path / "verdict.json").read_text())
    assert answer == combined(runs)
    assert answer["verdict"] == "INVALID"
    assert [run["verdict"] for run in answer["runs"]] == ["VALID", "INVALID"]
    assert answer["runs"][1]["forbidden"]["lost-write"] == 1
    assert json.loads((tmp_path / "verdicts" / "1.json").read_text())["run"] == "bent"
    anomalies = pyarrow.parquet.read_table(tmp_path / "anomalies.parquet")
    assert anomalies.schema.equals(ANOMALIES)
    lost = [row for row in anomalies.to_pylist() if row["kind"] == "lost-write"]
    assert [(row["run"], row["topic"], row["judgement"]) for row in lost] == [
        ("bent", ALL, "forbidden")
    ]
    assert json.loads(lost[0]["examples"])[0]["value"] == v(ALL, 15)
    aggregates = pyarrow.parquet.read_table(tmp_path / "aggregates.parquet")
    assert aggregates.schema.equals(AGGREGATES)
    assert set(aggregates["run"].to_pylist()) == {"well", "bent"}


def test_addresses_are_for_spark() -> None:
    """What has a scheme is no path, and the embedded engine says whose business it is."""
    assert is_address("s3a://bucket/run")
    assert not is_address("store/latest")
    with pytest.raises(HistoryError, match="only Spark reads"):
        load(None, "s3a://bucket/run")
    story = healthy()
    engine = DuckDbEngine()
    with pytest.raises(EngineError, match="only Spark reads"):
        engine.load(["s3a://bucket/run/history/*.parquet"], story.tables()["history"].schema)
    engine.close()
