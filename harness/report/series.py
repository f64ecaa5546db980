"""Numbers for the figures: everything that grows with the run is aggregated inside DuckDB.

Times are seconds since the start of the run, latencies ms. Sends are taken by acks mode, whatever
their topic. Latency belongs to the moment a send was invoked, since that is when its sender began
to wait; throughput and errors to the moment the outcome was known, or, where none ever was, to the
invocation. What comes back is bounded by buckets and cells, not by rows.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from checkers.history import SCHEMAS, Source
from harness.report.loading import Stored

MAX_BUCKETS = 240
STEPS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
MAX_LEADER_ROWS = 20_000
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
class Reign:
    """A span in which a partition's leader and ISR did not change; leader None: it had none."""

    start_s: float
    end_s: float
    leader: int | None
    epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLane:
    """The leaders of one partition."""

    topic: str
    partition: int
    reigns: tuple[Reign, ...]

    @property
    def changes(self) -> tuple[Reign, ...]:
        """The reigns that began with another leader than the last one known."""
        changed = []
        last: int | None = None
        for reign in self.reigns:
            if reign.leader is not None:
                if last is not None and reign.leader != last:
                    changed.append(reign)
                last = reign.leader
        return tuple(changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpan:
    """One fault as it was recorded. end_s: healed, or the end of the run where it never was."""

    fault_id: int
    fault: str
    label: str
    asked: str
    resolved: str
    planned_s: float | None
    started_s: float | None
    effective_s: float | None
    healed_s: float | None
    effect: str
    took_effect: bool
    error: str


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
    lanes: tuple[LeaderLane, ...]
    faults: tuple[FaultSpan, ...]
    topics: tuple[TopicCounts, ...]


def collect(stored: Stored, grid: Grid) -> Series:
    """Aggregate a run's tables. An empty run has a span of 0 s and no series."""
    with _connect(stored) as db:
        span_s = _span_s(db)
        step_s = next((s for s in STEPS_S if span_s / s <= MAX_BUCKETS), STEPS_S[-1])
        return Series(
            span_s=span_s,
            step_s=step_s,
            acks=tuple(_acks_series(db, span_s, step_s, grid)),
            lanes=tuple(_lanes(db, span_s)),
            faults=tuple(_faults(db)),
            topics=tuple(_topics(db)),
        )


@contextmanager
def _connect(stored: Stored) -> Iterator[Any]:
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as db:
        for name in ("history", "faults", "cluster"):
            sources: Sequence[Source] = getattr(stored, name)
            parts = []
            for number, source in enumerate(sources):
                if isinstance(source, pa.Table):
                    db.register(f"{name}_{number}", source)
                    parts.append(f"SELECT * FROM {name}_{number}")
                else:
                    quoted = str(source).replace("'", "''")
                    parts.append(f"SELECT * FROM read_parquet('{quoted}')")
            # So that the view has every column also when nothing was stored.
            empty = f"SELECT * FROM {name}_empty"
            db.register(f"{name}_empty", SCHEMAS[name].empty_table())
            db.execute(f"CREATE VIEW {name} AS {' UNION ALL BY NAME '.join([*parts, empty])}")
        db.execute(
            "CREATE TEMP TABLE sends AS SELECT acks, topic, type, invoke_ns, complete_ns,"
            " CASE WHEN complete_ns IS NOT NULL THEN"
            f" greatest((complete_ns - invoke_ns) / 1e6, {LEAST_LATENCY_MS}) END AS latency_ms"
            " FROM history WHERE f = 'send' AND acks IS NOT NULL"
        )
        yield db


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


def _lanes(db: Any, span_s: float) -> Iterator[LeaderLane]:
    rows = db.execute(
        "SELECT topic, partition, at_ns, leader, leader_epoch, isr FROM cluster"
        " WHERE kind = 'leader' AND topic IS NOT NULL AND partition IS NOT NULL"
        f" ORDER BY topic, partition, at_ns LIMIT {MAX_LEADER_ROWS}"
    ).fetchall()
    lanes: dict[tuple[str, int], list[Reign]] = {}
    for topic, partition, at_ns, leader, epoch, isr in rows:
        reigns = lanes.setdefault((topic, partition), [])
        known = None if leader is None or leader < 0 else leader
        members = tuple(sorted(isr or ()))
        if reigns:
            last = reigns[-1]
            # Views of older epochs arrive late; what counts is the newest epoch heard of.
            if (epoch or 0) < last.epoch or (known, epoch, members) == (
                last.leader, last.epoch, last.isr,
            ):  # fmt: skip
                continue
            reigns[-1] = Reign(
                start_s=last.start_s, end_s=at_ns / 1e9, leader=last.leader, epoch=last.epoch,
                isr=last.isr,
            )  # fmt: skip
        reigns.append(
            Reign(start_s=at_ns / 1e9, end_s=span_s, leader=known, epoch=epoch or 0, isr=members)
        )
    for (topic, partition), found in sorted(lanes.items()):
        yield LeaderLane(topic=topic, partition=partition, reigns=tuple(found))


def _faults(db: Any) -> Iterator[FaultSpan]:
    rows = db.execute(
        "SELECT fault_id, fault, label, targets, planned_ms, started_ns, effective_ns, healed_ns,"
        " effect, took_effect, error FROM faults ORDER BY started_ns NULLS LAST, fault_id"
    ).fetchall()
    for (
        number,
        fault,
        label,
        targets,
        planned,
        started,
        effective,
        healed,
        effect,
        took,
        error,
    ) in rows:
        asked, resolved = _targets(targets)
        yield FaultSpan(
            fault_id=number,
            fault=fault,
            label=label or fault,
            asked=asked,
            resolved=resolved,
            planned_s=None if planned is None else planned / 1e3,
            started_s=_seconds(started),
            effective_s=_seconds(effective),
            healed_s=_seconds(healed),
            effect=effect or "",
            took_effect=bool(took),
            error=error or "",
        )


def _seconds(at_ns: int | None) -> float | None:
    return None if at_ns is None else at_ns / 1e9


def _targets(text: str | None) -> tuple[str, str]:
    """What was asked for, and what it came to, in words; odd content is passed on as it is."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return "", text or ""
    if not isinstance(found, dict):
        return "", _nodes(found) if isinstance(found, list) else str(found)
    nodes = found.get("nodes")
    said = [_nodes(nodes)] if isinstance(nodes, list) and nodes else []
    if found.get("resolved"):
        said = [str(found["resolved"])]
    if drops := found.get("drops"):
        pairs = [f"{d[0]}→{d[1]}" for d in drops if isinstance(d, list) and len(d) == 2]
        said.append(f"cut {', '.join(pairs)}")
    return str(found.get("asked") or ""), "; ".join(said)


def _nodes(nodes: Sequence[object]) -> str:
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"
