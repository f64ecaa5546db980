"""Numbers for the figures: everything that grows with the run is aggregated inside DuckDB.

Times are seconds since the start of the run, latencies ms. Sends are taken by acks mode, whatever
their topic. Latency belongs to the moment a send was invoked, since that is when its sender began
to wait; throughput and errors to the moment the outcome was known, or, where none ever was, to the
invocation. What comes back is bounded by buckets and cells, not by rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.report.loading import Stored
from harness.report.tables import connect
from harness.report.timeline import Timeline, read_timeline

MAX_BUCKETS = 240
STEPS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
LEAST_LATENCY_MS = 0.01
"""A log scale has no zero; anything quicker is drawn here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Cells in which sends are drawn as one dot: `columns` over the run, `rows_per_decade` of
    latency."""

    columns: int
    rows_per_decade: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One occupied cell: `count` sends of one outcome, in the middle of the cell."""

    at_s: float
    latency_ms: float
    count: int
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AcksSeries:
    """One acks mode over time; the lists have one entry per bucket, None where nothing was."""

    acks: int
    acked: list[int]
    failed: list[int]
    indeterminate: list[int]
    p50_ms: list[float | None]
    p99_ms: list[float | None]
    dots: list[Dot]
    sends: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCounts:
    """What the history alone says of a topic's sends, for a run that was not judged."""

    topic: str
    acks: int
    sent: int
    acked: int
    failed: int
    indeterminate: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Everything that is drawn."""

    span_s: float
    step_s: float
    acks: tuple[AcksSeries, ...]
    timeline: Timeline
    topics: tuple[TopicCounts, ...]


def collect(stored: Stored, grid: Grid) -> Series:
    """Aggregate a run's tables. An empty run has a span of 0 s and no series."""
    with connect(stored) as db:
        _make_sends(db)
        span_s = _span_s(db)
        step_s = next((s for s in STEPS_S if span_s / s <= MAX_BUCKETS), STEPS_S[-1])
        return Series(
            span_s=span_s,
            step_s=step_s,
            acks=tuple(_acks_series(db, span_s, step_s, grid)),
            timeline=read_timeline(db, span_s),
            topics=tuple(_topics(db)),
        )


def _make_sends(db: Any) -> None:
    db.execute(
        "CREATE TEMP TABLE sends AS SELECT acks, topic, type, invoke_ns, complete_ns,"
        " CASE WHEN complete_ns IS NOT NULL THEN"
        f" greatest((complete_ns - invoke_ns) / 1e6, {LEAST_LATENCY_MS}) END AS latency_ms"
        " FROM history WHERE f = 'send' AND acks IS NOT NULL"
    )


def _span_s(db: Any) -> float:
    last = db.execute(
        "SELECT greatest((SELECT max(greatest(invoke_ns, coalesce(complete_ns, 0))) FROM history),"
        " (SELECT max(at_ns) FROM cluster),"
        " (SELECT max(greatest(started_ns, healed_ns)) FROM faults))"
    ).fetchone()[0]
    return max(0.0, (last or 0) / 1e9)


def _acks_series(db: Any, span_s: float, step_s: float, grid: Grid) -> Iterator[AcksSeries]:
    if span_s <= 0:
        return
    buckets = int(span_s / step_s) + 1
    step_ns = round(step_s * 1e9)
    modes = db.execute("SELECT acks, count(*) FROM sends GROUP BY acks").fetchall()
    outcomes = db.execute(
        f"SELECT acks, coalesce(complete_ns, invoke_ns) // {step_ns} AS bucket,"
        " count(*) FILTER (type = 'ok'), count(*) FILTER (type = 'fail'),"
        " count(*) FILTER (type NOT IN ('ok', 'fail')) FROM sends GROUP BY ALL"
    ).fetchall()
    quantiles = db.execute(
        f"SELECT acks, invoke_ns // {step_ns} AS bucket, quantile_cont(latency_ms, [0.5, 0.99])"
        " FROM sends WHERE type = 'ok' AND latency_ms IS NOT NULL GROUP BY ALL"
    ).fetchall()
    dots = _dots(db, span_s, grid)
    for acks, sends in sorted(modes, key=lambda row: _acks_order(row[0])):
        made = AcksSeries(
            acks=acks,
            acked=[0] * buckets,
            failed=[0] * buckets,
            indeterminate=[0] * buckets,
            p50_ms=[None] * buckets,
            p99_ms=[None] * buckets,
            dots=dots.get(acks, []),
            sends=sends,
        )
        for mode, bucket, acked, failed, indeterminate in outcomes:
            if mode == acks and 0 <= bucket < buckets:
                made.acked[bucket] = acked
                made.failed[bucket] = failed
                made.indeterminate[bucket] = indeterminate
        for mode, bucket, (p50_ms, p99_ms) in quantiles:
            if mode == acks and 0 <= bucket < buckets:
                made.p50_ms[bucket], made.p99_ms[bucket] = p50_ms, p99_ms
        yield made


def _dots(db: Any, span_s: float, grid: Grid) -> dict[int, list[Dot]]:
    """One dot per occupied cell: no outlier disappears, whatever the number of sends."""
    cell_ns = max(1, round(span_s * 1e9 / grid.columns))
    rows = db.execute(
        f"SELECT acks, type = 'ok', invoke_ns // {cell_ns} AS x,"
        f" floor(log10(latency_ms) * {grid.rows_per_decade})::INTEGER AS y, count(*)"
        " FROM sends WHERE latency_ms IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    found: dict[int, list[Dot]] = {}
    for acks, ok, x, y, count in rows:
        dot = Dot(
            at_s=(x + 0.5) * cell_ns / 1e9,
            latency_ms=10 ** ((y + 0.5) / grid.rows_per_decade),
            count=count,
            ok=ok,
        )
        found.setdefault(acks, []).append(dot)
    return found


def _topics(db: Any) -> Iterator[TopicCounts]:
    rows = db.execute(
        "SELECT coalesce(topic, ''), acks, count(*), count(*) FILTER (type = 'ok'),"
        " count(*) FILTER (type = 'fail'), count(*) FILTER (type NOT IN ('ok', 'fail')),"
        " quantile_cont(latency_ms, [0.5, 0.99]) FILTER (type = 'ok')"
        " FROM sends GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    for topic, acks, sent, acked, failed, indeterminate, quantiles in sorted(
        rows, key=lambda row: _acks_order(row[1])
    ):
        p50_ms, p99_ms = quantiles or (None, None)
        yield TopicCounts(
            topic=topic,
            acks=acks,
            sent=sent,
            acked=acked,
            failed=failed,
            indeterminate=indeterminate,
            p50_ms=p50_ms,
            p99_ms=p99_ms,
        )


def _acks_order(acks: int) -> int:
    """0, 1, all: from the weakest promise to the strongest."""
    return acks if acks >= 0 else 1 << 8
