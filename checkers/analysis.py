"""Judge many runs together, and write the results as tables for further analysis.

`analyze` judges each run like `check`, and `write` writes to a folder

    verdict.json           all runs together: the worst outcome, and each run's outcome and counts
    verdicts/<n>.json      the verdict of each run, in the order in which they were named
    anomalies.parquet      a row per run and group of like anomalies (schema ANOMALIES)
    aggregates.parquet     a row per run, topic, acks and minute (schema AGGREGATES)

The rows of a history stay inside the engine; only groups of anomalies and minutes leave it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from checkers.check import OnDetector, judge_frames, unobserved
from checkers.detectors.durability import lost_writes
from checkers.detectors.ordering import duplicates
from checkers.engines.engine import Engine, Frame, div
from checkers.frames.frames import Frames
from checkers.history.history import RunSources
from checkers.topics import rounded_latencies
from checkers.verdict import Outcome, Verdict, merge

MINUTE_NS = 60_000_000_000

ANOMALIES = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("aspect", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("acks", pa.int32()),
        pa.field("judgement", pa.string(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("cause", pa.string()),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("examples", pa.string(), nullable=False),  # JSON: the first few rows of evidence
    ]
)

# minute: since the start of the run, by when the send began; null, like acks, for the duplicates of
# what nobody sent. p50_ms, p99_ms: publish latency of what was acknowledged, by nearest rank.
AGGREGATES = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("acks", pa.int32()),
        pa.field("minute", pa.int64()),
        pa.field("sends", pa.int64(), nullable=False),
        pa.field("acked", pa.int64(), nullable=False),
        pa.field("failed", pa.int64(), nullable=False),
        pa.field("info", pa.int64(), nullable=False),
        pa.field("p50_ms", pa.float64()),
        pa.field("p99_ms", pa.float64()),
        pa.field("lost", pa.int64(), nullable=False),
        pa.field("duplicates", pa.int64(), nullable=False),
    ]
)
_COUNTED = ("acked", "failed", "info", "lost", "duplicates")
_BY = ["topic", "acks", "minute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyzed:
    """One run with its verdict and its rows of AGGREGATES."""

    run: str
    verdict: Verdict
    aggregates: pa.Table


def analyze(
    engine: Engine,
    run: str,
    sources: RunSources,
    plan: Mapping[str, Any],
    on_detector: OnDetector = unobserved,
) -> Analyzed:
    """Judge one run and aggregate its minutes. Raises the engine's errors."""
    frames = Frames(engine, sources, plan)
    verdict = judge_frames(frames, on_detector=on_detector)
    return Analyzed(run=run, verdict=verdict, aggregates=_aggregates(frames, run, verdict))


def analyze_all(
    runs: Iterable[str],
    load: Callable[[str], tuple[RunSources, Mapping[str, Any]]],
    engine: Callable[[], Engine],
    on_detector: Callable[[str], OnDetector] = lambda _run: unobserved,
) -> Iterator[Analyzed]:
    """Analyze runs one after the other, each on its own engine, which is closed afterwards."""
    for run in runs:
        sources, plan = load(run)
        made = engine()
        try:
            yield analyze(made, run, sources, plan, on_detector(run))
        finally:
            made.close()


def combined(analyzed: Sequence[Analyzed]) -> dict[str, Any]:
    """The content of the verdict.json of all runs together."""
    return {
        "verdict": merge(each.verdict.outcome for each in analyzed).value,
        "runs": [
            {
                "run": each.run,
                "verdict": each.verdict.outcome.value,
                "headline": each.verdict.headline.as_json(),
                "reasons": list(each.verdict.reasons),
                "forbidden": _counts(each.verdict, "forbidden"),
                "permitted": _counts(each.verdict, "permitted"),
            }
            for each in analyzed
        ],
    }


def outcome(analyzed: Iterable[Analyzed]) -> Outcome:
    """Return the worst outcome."""
    return merge(each.verdict.outcome for each in analyzed)


def write(folder: Path, analyzed: Sequence[Analyzed]) -> None:
    """Write all files to `folder`, and create it. Raises OSError."""
    (folder / "verdicts").mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(analyzed):
        verdict = {"run": each.run, **each.verdict.as_json()}
        (folder / "verdicts" / f"{number}.json").write_text(_text(verdict))
    for name, made in tables(analyzed).items():
        pyarrow.parquet.write_table(made, folder / f"{name}.parquet")
    (folder / "verdict.json").write_text(_text(combined(analyzed)))


def write_remote(session: Any, address: str, analyzed: Sequence[Analyzed]) -> None:
    """Write the same files by Spark to an address. A JSON file is a folder with one text file."""
    folder = address.rstrip("/")
    texts = {"verdict": combined(analyzed)} | {
        f"verdicts/{number}": {"run": each.run, **each.verdict.as_json()}
        for number, each in enumerate(analyzed)
    }
    for name, made in tables(analyzed).items():
        rows = session.createDataFrame(made).coalesce(1)
        rows.write.mode("overwrite").parquet(f"{folder}/{name}.parquet")
    for name, content in texts.items():
        line = pa.table({"value": [json.dumps(content, sort_keys=True)]})
        whole = session.createDataFrame(line).coalesce(1)
        whole.write.mode("overwrite").text(f"{folder}/{name}.json")


def tables(analyzed: Iterable[Analyzed]) -> dict[str, pa.Table]:
    """`anomalies` and `aggregates` of all runs together."""
    listed = list(analyzed)
    rows = [row for each in listed for row in _anomaly_rows(each)]
    counted = [each.aggregates for each in listed]
    return {
        "anomalies": pa.Table.from_pylist(rows, schema=ANOMALIES),
        "aggregates": pa.concat_tables([AGGREGATES.empty_table(), *counted]),
    }


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def _counts(verdict: Verdict, judgement: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for anomaly in verdict.anomalies:
        if anomaly.judgement.value == judgement:
            found[anomaly.kind] = found.get(anomaly.kind, 0) + anomaly.count
    return found


def _anomaly_rows(analyzed: Analyzed) -> Iterable[dict[str, Any]]:
    for anomaly in analyzed.verdict.anomalies:
        yield {
            "run": analyzed.run,
            "kind": anomaly.kind,
            "aspect": anomaly.aspect,
            "topic": anomaly.topic,
            "partition": anomaly.partition,
            "acks": anomaly.acks,
            "judgement": anomaly.judgement.value,
            "rule": anomaly.rule,
            "cause": anomaly.cause,
            "count": anomaly.count,
            "examples": json.dumps([dict(row) for row in anomaly.examples], sort_keys=True),
        }


def _aggregates(frames: Frames, run: str, verdict: Verdict) -> pa.Table:
    engine = frames.engine
    latencies = {tuple(row[name] for name in _BY): row for row in engine.rows(_percentiles(frames))}
    rows = []
    for row in engine.rows(_minutes(frames, verdict).orderBy(*_BY)):
        took = latencies.get(tuple(row[name] for name in _BY), {})
        more = {f"{p}_ms": took[f"{p}_us"] / 1000 if took else None for p in ("p50", "p99")}
        rows.append({**row, **more, "run": run})
    return pa.Table.from_pylist(rows, schema=AGGREGATES)


def _minutes(frames: Frames, verdict: Verdict) -> Frame:
    """Return topic, acks, minute and the counts: sends, their outcomes, their anomalies."""
    F = frames.engine.functions
    kinds = {anomaly.kind for anomaly in verdict.anomalies}
    marks = F.when(F.col("type") == F.lit("ok"), F.lit("acked")).otherwise(
        F.when(F.col("type") == F.lit("fail"), F.lit("failed")).otherwise(F.lit("info"))
    )
    marked = _with_minute(frames, frames.sends, marks)
    # A detector runs again only if it found anything.
    for kind, mark, detect in (
        ("lost-write", "lost", lost_writes),
        ("duplicate", "duplicates", duplicates),
    ):
        for found in detect(frames) if kind in kinds else ():
            of_kind = found.where(F.col("kind") == F.lit(kind))
            marked = marked.unionByName(_with_minute(frames, of_kind, F.lit(mark)))

    def times(mark: str) -> Any:
        one = F.when(F.col("mark") == F.lit(mark), F.lit(1)).otherwise(F.lit(0))
        return F.sum(one).cast("bigint").alias(mark)

    counts = marked.groupBy(*_BY).agg(*(times(mark) for mark in _COUNTED))
    sends = (F.col("acked") + F.col("failed") + F.col("info")).alias("sends")
    return counts.select(*_BY, sends, *_COUNTED)


def _with_minute(frames: Frames, rows: Frame, mark: Any) -> Frame:
    F = frames.engine.functions
    minute = div(frames.engine, "invoke_ns", MINUTE_NS).cast("bigint").alias("minute")
    return rows.select("topic", F.col("acks").cast("int").alias("acks"), minute, mark.alias("mark"))


def _percentiles(frames: Frames) -> Frame:
    """Return topic, acks, minute, p50_us, p99_us, from histograms: no task sorts all sends."""
    F, window = frames.engine.functions, frames.engine.window
    minute = div(frames.engine, "invoke_ns", MINUTE_NS).cast("bigint").alias("minute")
    took = rounded_latencies(frames).select("topic", "acks", minute, "us")
    histogram = took.groupBy(*_BY, "us").agg(F.count(F.lit(1)).alias("rows"))
    inside = window.partitionBy(*_BY)
    running = inside.orderBy("us").rowsBetween(window.unboundedPreceding, window.currentRow)
    ranked = histogram.select(
        *_BY, "us",
        F.sum("rows").over(running).alias("seen"),
        F.sum("rows").over(inside).alias("total"),
    )  # fmt: skip

    def rank(percent: int) -> Any:
        reached = F.col("seen") * F.lit(100) >= F.col("total") * F.lit(percent)
        return F.min(F.when(reached, F.col("us")))

    return ranked.groupBy(*_BY).agg(rank(50).alias("p50_us"), rank(99).alias("p99_us"))
