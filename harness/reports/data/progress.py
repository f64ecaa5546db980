"""Progress of the partitions: times without an acknowledgement, high watermark, consumer lag.

Times are seconds since the start of the run. Everything is bounded by what can be drawn; what is
left out is counted.
"""

from dataclasses import dataclass
from typing import Any

SHORTEST_GAP_S = 0.5
"""Shorter times without an acknowledgement are normal: a leader's answer may take this long."""
MAX_GAPS = 3_000
MAX_POINTS = 40_000
MOST_POINTS_EACH = 400

_GAPS = f"""
WITH sends AS (SELECT topic, partition, type, invoke_ns, complete_ns FROM history
  WHERE f = 'send' AND acks IS NOT NULL AND acks <> 0
    AND topic IS NOT NULL AND partition IS NOT NULL),
acked AS (SELECT topic, partition, complete_ns AS at_ns, lead(complete_ns) OVER
    (PARTITION BY topic, partition ORDER BY complete_ns) AS next_ns FROM sends WHERE type = 'ok'),
lone AS (SELECT * FROM acked WHERE next_ns - at_ns >= {SHORTEST_GAP_S * 1e9:.0f}),
tried AS (SELECT l.topic, l.partition, l.next_ns,
    greatest(l.at_ns, min(s.invoke_ns)) AS from_ns
  FROM lone l JOIN sends s ON s.topic = l.topic AND s.partition = l.partition
    AND s.invoke_ns < l.next_ns AND (s.complete_ns IS NULL OR s.complete_ns > l.at_ns)
  GROUP BY l.topic, l.partition, l.next_ns, l.at_ns)
SELECT topic, partition, from_ns, next_ns FROM tried
WHERE next_ns - from_ns >= {SHORTEST_GAP_S * 1e9:.0f}
ORDER BY next_ns - from_ns DESC, topic, partition, from_ns
"""

_POINTS = """
WITH ends AS (SELECT topic, partition, complete_ns AS at_ns, max("offset") AS high FROM history
  WHERE f = 'watermark' AND type = 'ok' AND "offset" IS NOT NULL AND complete_ns IS NOT NULL
  GROUP BY ALL),
thinned AS (SELECT topic, partition, at_ns, high FROM ends QUALIFY row_number() OVER
  (PARTITION BY topic, partition, at_ns // {step_ns} ORDER BY at_ns DESC) = 1),
polled AS (SELECT topic, partition, complete_ns AS at_ns, max("offset") + 1 AS upto FROM history
  WHERE f = 'poll' AND type = 'ok' AND complete_ns IS NOT NULL GROUP BY ALL),
reached AS (SELECT topic, partition, at_ns, max(upto) OVER
  (PARTITION BY topic, partition ORDER BY at_ns) AS upto FROM polled)
SELECT e.topic, e.partition, e.at_ns, e.high, r.upto FROM thinned e
ASOF LEFT JOIN reached r ON e.topic = r.topic AND e.partition = r.partition AND e.at_ns >= r.at_ns
ORDER BY e.topic, e.partition, e.at_ns
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A partition acknowledged nothing from `start_s`, the first try, until `end_s`."""

    topic: str
    partition: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """A partition's high watermark over time, as clients saw it. `lags`: how many records its
    readers were behind; None before they read anything."""

    topic: str
    partition: int
    at_s: tuple[float, ...]
    high: tuple[int, ...]
    lags: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of all partitions, and the longest gaps."""

    gaps: tuple[Gap, ...]
    gaps_left_out: int
    partitions: tuple[PartitionProgress, ...]


def read_progress(db: Any, span_s: float) -> Progress:
    """Read the view `history`."""
    found = db.execute(_GAPS).fetchall()
    return Progress(
        gaps=tuple(
            Gap(topic=topic, partition=partition, start_s=from_ns / 1e9, end_s=next_ns / 1e9)
            for topic, partition, from_ns, next_ns in found[:MAX_GAPS]
        ),
        gaps_left_out=max(0, len(found) - MAX_GAPS),
        partitions=_partitions(db, span_s),
    )


def _partitions(db: Any, span_s: float) -> tuple[PartitionProgress, ...]:
    [many] = db.execute(
        "SELECT count(DISTINCT (topic, partition)) FROM history WHERE f = 'watermark'"
    ).fetchone()
    each = min(MOST_POINTS_EACH, MAX_POINTS // max(1, many))
    step_ns = max(1, round(span_s * 1e9 / max(1, each)))
    points: dict[tuple[str, int], list[tuple[float, int, int | None]]] = {}
    for topic, partition, at_ns, high, upto in db.execute(
        _POINTS.format(step_ns=step_ns)
    ).fetchall():
        lag = None if upto is None else max(0, high - upto)
        points.setdefault((topic, partition), []).append((at_ns / 1e9, high, lag))
    return tuple(
        PartitionProgress(
            topic=topic,
            partition=partition,
            at_s=tuple(at_s for at_s, _, _ in found),
            high=tuple(high for _, high, _ in found),
            lags=tuple(lag for _, _, lag in found),
        )
        for (topic, partition), found in points.items()
    )
