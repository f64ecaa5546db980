"""The numbers per topic that the report's first table shows, computed by the engine."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkers.contract.contract import Judgement
from checkers.engines.engine import Column, Frame
from checkers.frames.frames import Frames
from checkers.history.history import KEYED_DELETE, KEYED_WRITE, SENDS
from checkers.history.settings import acks_number
from checkers.losses import LOSSES
from checkers.verdict import Anomaly

EXACT_US = 1_000
"""Latencies are kept to three significant digits from here on; below, to the microsecond."""


def topic_statistics(frames: Frames, anomalies: Iterable[Anomaly]) -> list[dict[str, Any]]:
    """Return one row for each topic of the plan, and of the history, as in verdict.json.

    p50_ms and p99_ms: publish latency of successful sends, complete minus invoke, by nearest rank.
    stale_*: the polls that missed a record which acks=all had acknowledged before they began: how
    many there were, and how long before.
    """
    F = frames.engine.functions
    counts: dict[str, dict[str, Any]] = defaultdict(dict)
    sends = frames.row_counts.where(F.col("f").isin(*SENDS))
    rows = frames.engine.rows(
        sends.groupBy("topic", "type").agg(
            F.sum("rows").cast("bigint").alias("rows"), F.max("acks").alias("acks")
        )
    )
    for row in rows:
        counts[row["topic"]][row["type"]] = row["rows"]
        counts[row["topic"]]["acks"] = row["acks"]
    latencies = _histograms(frames, rounded_latencies(frames))
    stale = _histograms(
        frames, _rounded(frames, frames.stale_polls, "acked_ns", "polled_ns", ["topic"])
    )
    listed = list(anomalies)
    planned: dict[str, Mapping[str, Any]] = {t["name"]: t for t in frames.plan.get("topics") or ()}
    topics = [*planned, *sorted(counts.keys() - planned.keys())]
    return [
        _topic_row(
            topic,
            planned.get(topic, {}),
            counts[topic],
            latencies.get(topic, ()),
            stale.get(topic, ()),
            [anomaly for anomaly in listed if anomaly.topic == topic],
        )
        for topic in topics
    ]


def _topic_row(
    topic: str,
    settings: Mapping[str, Any],
    counts: Mapping[str, Any],
    latencies: Sequence[tuple[int, int]],
    stale: Sequence[tuple[int, int]],
    anomalies: Sequence[Anomaly],
) -> dict[str, Any]:
    lost = [anomaly for anomaly in anomalies if anomaly.kind in LOSSES]
    causes: dict[str, int] = defaultdict(int)
    for anomaly in lost:
        causes[anomaly.cause or "no cause in the record"] += anomaly.count
    outcomes = {name: counts.get(name, 0) for name in ("ok", "fail", "info")}
    return {
        "topic": topic,
        "acks": acks_number(settings.get("acks", counts.get("acks"))),
        "idempotence": bool(settings.get("idempotence", False)),
        "sent": sum(outcomes.values()),
        "acked": outcomes["ok"],
        "failed": outcomes["fail"],
        "indeterminate": outcomes["info"],
        "lost": _total(lost),
        "lost_permitted": _total(a for a in lost if a.judgement is Judgement.PERMITTED),
        "lost_forbidden": _total(a for a in lost if a.judgement is Judgement.FORBIDDEN),
        "duplicated": _total(a for a in anomalies if a.kind == "duplicate"),
        "reordered": _total(a for a in anomalies if a.kind == "reordered-send"),
        "p50_ms": nearest_rank_ms(latencies, 50),
        "p99_ms": nearest_rank_ms(latencies, 99),
        "stale_polls": sum(count for _, count in stale),
        "stale_p50_ms": nearest_rank_ms(stale, 50),
        "stale_p99_ms": nearest_rank_ms(stale, 99),
        "stale_max_ms": nearest_rank_ms(stale, 100),
        "loss_causes": [
            {"cause": cause, "count": count}
            for cause, count in sorted(causes.items(), key=lambda item: (-item[1], item[0]))
        ],
    }


def _total(anomalies: Iterable[Anomaly]) -> int:
    return sum(anomaly.count for anomaly in anomalies)


def _histograms(frames: Frames, times: Frame) -> dict[str, list[tuple[int, int]]]:
    """Per topic the histogram (us, rows) of times (topic, us), ascending."""
    F = frames.engine.functions
    rows = frames.engine.rows(
        times.groupBy("topic", "us").agg(F.count(F.lit(1)).alias("rows")).orderBy("topic", "us")
    )
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        found[row["topic"]].append((row["us"], row["rows"]))
    return found


def rounded_latencies(frames: Frames) -> Frame:
    """Return topic, acks, invoke_ns, us: the publish latency of every successful send, of compacted
    topics too, rounded down."""
    F = frames.engine.functions
    kept = ["topic", "acks", "invoke_ns"]
    sends = frames.acked.select(*kept, "complete_ns")
    keyed = F.col("f").isin(KEYED_WRITE, KEYED_DELETE) & (F.col("type") == F.lit("ok"))
    if frames.engine.rows(frames.row_counts.where(keyed).select("f").limit(1)):
        sends = sends.unionByName(frames.history.where(keyed).select(*kept, "complete_ns"))
    return _rounded(frames, sends, "invoke_ns", "complete_ns", kept)


def _rounded(frames: Frames, rows: Frame, begin: str, end: str, kept: Sequence[str]) -> Frame:
    """Return the columns `kept` and us, the time from `begin` to `end`, without negative times."""
    F = frames.engine.functions
    took = rows.where(F.col(end) >= F.col(begin)).select(
        *kept, (F.col(end) - F.col(begin)).alias("took_ns")
    )
    took = took.select(*kept, F.expr("`took_ns` div 1000").cast("bigint").alias("us"))
    return took.select(*kept, (F.col("us") - F.col("us") % _grain(frames)).alias("us"))


def _grain(frames: Frames) -> Column:
    F = frames.engine.functions
    grain = F.when(F.col("us") < F.lit(EXACT_US), F.lit(1))
    for step in (10, 100, 1_000, 10_000, 100_000):
        grain = grain.when(F.col("us") < F.lit(EXACT_US * step), F.lit(step))
    return grain.otherwise(F.lit(1_000_000))


def nearest_rank_ms(histogram: Sequence[tuple[int, int]], percent: int) -> float | None:
    """Return the percentile of a histogram (latency in us, count) in ms; None if it is empty."""
    rank = -(-sum(count for _, count in histogram) * percent // 100)
    seen = 0
    for us, count in histogram:
        seen += count
        if seen >= rank:
            return us / 1000
    return None
