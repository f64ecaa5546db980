"""Leaders of partitions and faults over time, bounded for drawing.

Times are seconds since the start of the run. A long run has more than can be drawn. Then the page
keeps the partitions with the most leader epochs, the last of many changes in a short time, and the
first faults; what is left out is counted.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

MAX_LANES = 500
MAX_FAULTS = 1_000
CROWDED_ROWS = 30_000
"""Up to this many changes of leader or ISR, all are drawn; above, one per partition and moment."""
CROWDED_MOMENTS = 1_200


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSpan:
    """A time in which a partition's leader and ISR did not change; leader None: it had no
    leader."""

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
    spans: tuple[LeaderSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpan:
    """One recorded fault."""

    fault_id: int
    fault: str
    label: str
    selector: str
    resolved: str
    planned_s: float | None
    started_s: float | None
    effective_s: float | None
    healed_s: float | None
    inject_ms: float | None
    heal_ms: float | None
    effect: str
    healing: str
    took_effect: bool
    error: str

    @property
    def injected(self) -> bool:
        """Whether anything was done. A fault that would change nothing is started, then skipped."""
        return self.started_s is not None and not self.error.startswith("not injected")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Leaders and faults over time, and how many of each are left out."""

    lanes: tuple[LeaderLane, ...]
    lanes_left_out: int
    crowded_s: float | None
    """Only the last change within this time is kept; None: all are."""
    faults: tuple[FaultSpan, ...]
    faults_left_out: int


def read_timeline(db: Any, span_s: float) -> Timeline:
    """Read leaders and faults from the views `cluster` and `faults`."""
    partitions, changes = db.execute(
        "SELECT count(DISTINCT (topic, partition)), count(*) FROM cluster"
        " WHERE kind = 'leader' AND topic IS NOT NULL AND partition IS NOT NULL"
    ).fetchone()
    crowded_s = span_s / CROWDED_MOMENTS if changes > CROWDED_ROWS else None
    lanes = tuple(_lanes(db, span_s, crowded_s))
    faults = tuple(_faults(db))
    recorded = db.execute("SELECT count(*) FROM faults").fetchone()[0]
    return Timeline(
        lanes=lanes,
        lanes_left_out=partitions - len(lanes),
        crowded_s=crowded_s,
        faults=faults,
        faults_left_out=recorded - len(faults),
    )


def _lanes(db: Any, span_s: float, crowded_s: float | None) -> Iterator[LeaderLane]:
    moment_ns = max(1, round((crowded_s or 0) * 1e9))
    rows = db.execute(
        "WITH leaders AS (SELECT * FROM cluster"
        "  WHERE kind = 'leader' AND topic IS NOT NULL AND partition IS NOT NULL),"
        " kept AS (SELECT topic, partition FROM leaders GROUP BY ALL"
        f"  ORDER BY count(DISTINCT leader_epoch) DESC, topic, partition LIMIT {MAX_LANES}),"
        " numbered AS (SELECT topic, partition, at_ns, leader, leader_epoch, isr,"
        "  row_number() OVER (PARTITION BY topic, partition ORDER BY at_ns) AS place"
        "  FROM leaders SEMI JOIN kept USING (topic, partition))"
        " SELECT topic, partition, at_ns, leader, leader_epoch, isr FROM numbered"
        f" QUALIFY {'true' if crowded_s is None else 'false'} OR row_number() OVER"
        f" (PARTITION BY topic, partition, at_ns // {moment_ns} ORDER BY place DESC) = 1"
        " ORDER BY topic, partition, place"
    ).fetchall()
    lanes: dict[tuple[str, int], list[LeaderSpan]] = {}
    for topic, partition, at_ns, leader, epoch, isr in rows:
        span = LeaderSpan(
            start_s=at_ns / 1e9,
            end_s=span_s,
            leader=None if leader is None or leader < 0 else leader,
            epoch=epoch or 0,
            isr=tuple(sorted(isr or ())),
        )
        _append_span(lanes.setdefault((topic, partition), []), span)
    for (topic, partition), spans in sorted(lanes.items()):
        yield LeaderLane(topic=topic, partition=partition, spans=tuple(spans))


def _append_span(spans: list[LeaderSpan], new: LeaderSpan) -> None:
    """Append a span and end the last one, unless the new one says nothing new."""
    if spans:
        last = spans[-1]
        # Reports of older epochs may arrive late; the newest epoch counts.
        same = (new.leader, new.epoch, new.isr) == (last.leader, last.epoch, last.isr)
        if same or new.epoch < last.epoch:
            return
        spans[-1] = replace(last, end_s=new.start_s)
    spans.append(new)


def _faults(db: Any) -> Iterator[FaultSpan]:
    found = db.execute(
        "SELECT fault_id, fault, label, targets, planned_ms, started_ns, effective_ns, healed_ns,"
        " inject_ms, heal_ms, effect, healing, took_effect, error FROM faults"
        f" ORDER BY started_ns NULLS LAST, fault_id LIMIT {MAX_FAULTS}"
    )
    names = [column[0] for column in found.description]
    for values in found.fetchall():
        row = dict(zip(names, values, strict=True))
        selector, resolved = _selector_and_nodes(row["targets"])
        yield FaultSpan(
            fault_id=row["fault_id"],
            fault=row["fault"],
            label=row["label"] or row["fault"],
            selector=selector,
            resolved=resolved,
            planned_s=None if row["planned_ms"] is None else row["planned_ms"] / 1e3,
            started_s=_seconds(row["started_ns"]),
            effective_s=_seconds(row["effective_ns"]),
            healed_s=_seconds(row["healed_ns"]),
            inject_ms=row["inject_ms"],
            heal_ms=row["heal_ms"],
            effect=row["effect"] or "",
            healing=row["healing"] or "",
            took_effect=bool(row["took_effect"]),
            error=row["error"] or "",
        )


def _seconds(at_ns: int | None) -> float | None:
    return None if at_ns is None else at_ns / 1e9


def _selector_and_nodes(text: str | None) -> tuple[str, str]:
    """Return the selector, and the nodes that it selected in words; odd content stays unchanged."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return "", text or ""
    if not isinstance(found, dict):
        return "", _nodes(found) if isinstance(found, list) else str(found)
    selector = str(found.get("asked") or "")
    nodes = found.get("nodes")
    resolved = [_nodes(nodes)] if isinstance(nodes, list) and nodes else []
    if (because := str(found.get("resolved") or "")) not in ("", selector, *resolved):
        resolved = [f"{resolved[0]} ({because})" if resolved else because]
    if cuts := [*(found.get("cuts") or ()), *(found.get("drops") or ())]:
        pairs = [_pair(*cut) for cut in cuts if isinstance(cut, list) and len(cut) in (2, 3)]
        resolved.append(f"cut {', '.join(pairs)}")
    return selector, "; ".join(resolved)


def _pair(src: object, dst: object, port: object = 0) -> str:
    return f"{src}→{dst}" + (f" port {port}" if port else "")


def _nodes(nodes: Sequence[object]) -> str:
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"
