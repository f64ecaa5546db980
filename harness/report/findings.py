"""Anomalies arranged for reading: by kind, the forbidden first, their evidence as tables.

Nothing is judged here and nothing silently dropped: what is too much to print is counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.words import MEANINGS, acks_label, gravity, number, seconds, weight

MAX_FINDINGS = 40
"""Per kind; what is beyond is counted."""
MAX_EVIDENCE_ROWS = 20
MAX_OPEN = 3
"""Forbidden findings whose evidence is unfolded from the start."""

_SEQUENCE_BITS = 32

_HEADS = {
    "lasted_ns": "lasted",
    "invoke_ns": "invoked",
    "complete_ns": "completed",
    "other_op": "other op",
    "other_value": "other value",
    "other_offset": "other offset",
}
_LASTING = ("unavailable", "recovery")
_SAID_ABOVE = frozenset({"kind", "topic", "partition", "acks", "aspect", "cause", "cause_id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of evidence, and what it stands for when somebody points at it."""

    text: str
    title: str = ""
    numeric: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """All instances of one kind with one judgement for one reason."""

    judgement: str
    count: int
    where: str
    aspect: str
    cause: str
    rule: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    not_shown: int
    unfolded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """All findings of one kind of anomaly; totals are (judgement, count), the gravest first."""

    name: str
    meaning: str
    totals: Sequence[tuple[str, int]]
    findings: Sequence[Finding]
    left_out: int
    left_out_count: int


def arrange(anomalies: Sequence[Mapping[str, Any]]) -> list[Kind]:
    """The anomalies of verdict.json by kind."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for anomaly in anomalies:
        by_kind.setdefault(str(anomaly.get("kind")), []).append(anomaly)

    def order(kind: str) -> tuple[int, int]:
        return min(weight(str(a.get("judgement"))) for a in by_kind[kind]), gravity(kind)

    return [_kind(name, by_kind[name]) for name in sorted(by_kind, key=order)]


def _kind(name: str, anomalies: Sequence[Mapping[str, Any]]) -> Kind:
    ordered = sorted(
        _together(anomalies),
        key=lambda a: (weight(str(a.get("judgement"))), -int(a.get("count") or 0)),
    )
    totals: dict[str, int] = {}
    for anomaly in ordered:
        judgement = str(anomaly.get("judgement"))
        totals[judgement] = totals.get(judgement, 0) + int(anomaly.get("count") or 0)
    beyond = ordered[MAX_FINDINGS:]
    return Kind(
        name=name,
        meaning=MEANINGS.get(name, ""),
        totals=list(totals.items()),
        findings=[_finding(a, n) for n, a in enumerate(ordered[:MAX_FINDINGS])],
        left_out=len(beyond),
        left_out_count=sum(int(a.get("count") or 0) for a in beyond),
    )


def _together(anomalies: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What is only worth knowing, as one table for all partitions, what lasted longest first."""
    made: list[Mapping[str, Any]] = []
    merged: dict[str, dict[str, Any]] = {}
    for anomaly in anomalies:
        if anomaly.get("judgement") != "informational":
            made.append(anomaly)
            continue
        rule = str(anomaly.get("rule"))
        if rule not in merged:
            merged[rule] = {"judgement": "informational", "rule": rule, "count": 0, "examples": []}
            made.append(merged[rule])
        merged[rule]["count"] += int(anomaly.get("count") or 0)
        merged[rule]["examples"] += [_placed(anomaly, row) for row in _examples(anomaly)]
    for each in merged.values():
        rows = each["examples"]
        rows.sort(key=lambda row: -row.get("lasted_ns", 0))
        if rows and "lasted_ns" in rows[0]:
            whole = len(rows) == each["count"]
            each["aspect"] = (
                f"{'longest' if whole else 'longest of the examples'} "
                f"{seconds(rows[0]['lasted_ns'] / 1e9)}, {rows[0]['where']}"
            )
    return made


def _placed(anomaly: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of evidence that says itself where it belongs and how long it lasted."""
    placed: dict[str, Any] = {"where": _where(anomaly), "what": _aspect(anomaly) or None}
    begin, end = row.get("invoke_ns"), row.get("complete_ns")
    if anomaly.get("kind") in _LASTING and isinstance(begin, int) and isinstance(end, int):
        placed["lasted_ns"] = end - begin
    if anomaly.get("kind") == "recovery":
        row = {"fault" if key == "other_op" else key: value for key, value in row.items()}
    return placed | dict(row)


def _examples(anomaly: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in anomaly.get("examples") or () if isinstance(row, Mapping)]


def _where(anomaly: Mapping[str, Any]) -> str:
    topic, partition = anomaly.get("topic"), anomaly.get("partition")
    where = "" if topic is None else f"{topic}" if partition is None else f"{topic}/{partition}"
    return " · ".join(part for part in (acks_label(anomaly.get("acks")), where) if part)


def _finding(anomaly: Mapping[str, Any], place: int) -> Finding:
    examples = _examples(anomaly)
    shown = examples[:MAX_EVIDENCE_ROWS]
    count = int(anomaly.get("count") or 0)
    heads = _heads(shown)
    judgement = str(anomaly.get("judgement"))
    return Finding(
        judgement=judgement,
        count=count,
        where=_where(anomaly),
        aspect=_aspect(anomaly),
        cause=str(anomaly.get("cause") or ""),
        rule=str(anomaly.get("rule") or ""),
        heads=[_HEADS.get(head, head) for head in heads],
        rows=[[_cell(head, row.get(head)) for head in heads] for row in shown],
        not_shown=max(0, count - len(shown)),
        unfolded=judgement == "forbidden" and place < MAX_OPEN,
    )


def _aspect(anomaly: Mapping[str, Any]) -> str:
    if part := anomaly.get("part_of_log"):
        return f"{part} of the log"
    return str(anomaly.get("aspect") or "")


def _heads(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every column that says something, in the order of the evidence; what is above is not said
    again."""
    heads: dict[str, None] = {}
    for row in rows:
        heads.update(
            dict.fromkeys(k for k, v in row.items() if v is not None and k not in _SAID_ABOVE)
        )
    return list(heads)


def _cell(head: str, value: Any) -> Cell:
    if value is None:
        return Cell(text="")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Cell(text=str(value), numeric=False)
    if head.endswith("_ns"):
        return Cell(text=f"{value / 1e9:.6f} s", title=f"{value} ns")
    if head in ("value", "other_value") and isinstance(value, int) and value >> _SEQUENCE_BITS:
        client, sequence = value >> _SEQUENCE_BITS, value & ((1 << _SEQUENCE_BITS) - 1)
        return Cell(text=f"{client}:{sequence}", title=f"{value}: client {client}, its {sequence}")
    if head in ("op", "other_op"):
        return Cell(text=str(value))
    return Cell(text=number(value))
