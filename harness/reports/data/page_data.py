"""All data of a page, read from a run's tables: the texts, and the blocks that the script draws.

Times are seconds since the start of the run, latencies ms.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.reports.data.incidents import Anomalies, list_anomalies, pack_anomalies, pack_evidence
from harness.reports.data.loading import StoredRun
from harness.reports.data.losses import acks_strength
from harness.reports.data.operations import Operations, pack_operations
from harness.reports.data.progress import Progress, read_progress
from harness.reports.data.tables import connect, rows_out_of_range
from harness.reports.data.timeline import FaultSpan, LeaderLane, Timeline, read_timeline
from harness.reports.data.wall_clocks import WallClocks, read_wall_clocks
from harness.reports.packing import pack


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCounts:
    """The sends of a topic, counted from the history, for a run that was not judged."""

    topic: str
    acks: int
    sent: int
    acked: int
    failed: int
    info: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """The data of one page. blocks: by the names that the script uses."""

    span_s: float
    timeline: Timeline
    progress: Progress
    wall_clocks: WallClocks
    topics: tuple[TopicCounts, ...]
    operations: Operations
    anomalies: Anomalies
    blocks: Mapping[str, str]
    rows_out_of_range: int
    """Rows with a number that is too large to be drawn exactly."""


def read_page_data(stored: StoredRun) -> PageData:
    """Read a run's tables. An empty run has a span of 0 s and empty blocks."""
    anomalies = list_anomalies(stored.verdict)
    with connect(stored) as db:
        out_of_range = rows_out_of_range(db)
        span_s = _span_s(db)
        timeline = read_timeline(db, span_s)
        progress = read_progress(db, span_s)
        wall_clocks = read_wall_clocks(db, span_s)
        operations = pack_operations(db, span_s)
        blocks = {
            "overview": _pack_overview(span_s, timeline, progress, wall_clocks),
            "operations": operations.block,
            "anomalies": pack_anomalies(anomalies),
            "evidence": pack_evidence(db, stored, anomalies),
        }
        topics = tuple(_topics(db))
    return PageData(
        span_s=span_s,
        timeline=timeline,
        progress=progress,
        wall_clocks=wall_clocks,
        topics=topics,
        operations=operations,
        anomalies=anomalies,
        blocks=blocks,
        rows_out_of_range=out_of_range,
    )


def _span_s(db: Any) -> float:
    last = db.execute(
        "SELECT greatest((SELECT max(greatest(invoke_ns, coalesce(complete_ns, 0))) FROM history),"
        " (SELECT max(at_ns) FROM cluster),"
        " (SELECT max(greatest(started_ns, healed_ns)) FROM faults))"
    ).fetchone()[0]
    return max(0.0, (last or 0) / 1e9)


def _pack_overview(
    span_s: float, timeline: Timeline, progress: Progress, wall_clocks: WallClocks
) -> str:
    return pack(
        {
            "span": span_s,
            "faults": [_fault(fault) for fault in timeline.faults],
            "lanes": [_lane(lane) for lane in timeline.lanes],
            "gaps": [
                [gap.topic, gap.partition, round(gap.start_s, 3), round(gap.end_s, 3)]
                for gap in progress.gaps
            ],
            "progress": [
                {
                    "topic": course.topic,
                    "partition": course.partition,
                    "at": [round(at_s, 3) for at_s in course.at_s],
                    "high": course.high,
                    "lag": course.lags,
                }
                for course in progress.partitions
            ],
            "clocks": [
                {
                    "node": clock.node,
                    "at": [round(at_s, 3) for at_s in clock.at_s],
                    "ahead": [round(ahead_ms, 3) for ahead_ms in clock.ahead_ms],
                }
                for clock in wall_clocks.clocks
            ],
        }
    )


def _fault(fault: FaultSpan) -> dict[str, Any]:
    return {
        "id": fault.fault_id,
        "fault": fault.fault,
        "label": fault.label,
        "start": fault.started_s if fault.injected else None,
        "end": fault.healed_s,
        "took_effect": fault.took_effect,
        "effect": fault.effect,
    }


def _lane(lane: LeaderLane) -> dict[str, Any]:
    return {
        "topic": lane.topic,
        "partition": lane.partition,
        "spans": [
            [round(each.start_s, 4), round(each.end_s, 4), each.leader, each.epoch, each.isr]
            for each in lane.spans
        ],
    }


def _topics(db: Any) -> Iterator[TopicCounts]:
    latency = "CASE WHEN type = 'ok' THEN (complete_ns - invoke_ns) / 1e6 END"
    rows = db.execute(
        "SELECT coalesce(topic, ''), acks, count(*), count(*) FILTER (type = 'ok'),"
        " count(*) FILTER (type = 'fail'), count(*) FILTER (type NOT IN ('ok', 'fail')),"
        f" quantile_cont({latency}, [0.5, 0.99])"
        " FROM history WHERE f = 'send' AND acks IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    for topic, acks, sent, acked, failed, info, quantiles in sorted(
        rows, key=lambda row: acks_strength(row[1])
    ):
        p50_ms, p99_ms = quantiles or (None, None)
        yield TopicCounts(
            topic=topic,
            acks=acks,
            sent=sent,
            acked=acked,
            failed=failed,
            info=info,
            p50_ms=p50_ms,
            p99_ms=p99_ms,
        )
