"""Every recorded instance of an anomaly, and the evidence around it, for a page that shows them one
at a time.

verdict.json has groups of like anomalies, each with an exact count and its first instances. They
come in two blocks: what can be listed and filtered (`pack_anomalies`), and the rows of the history,
the replicas' batches, leader epochs and log lines (`pack_evidence`), unpacked when first needed.
Nothing is judged here; whatever is not shown is counted.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from checkers.history.arrow import few_rows, take_over
from harness.reports.data.loading import Stored
from harness.reports.data.node_logs import read_node_logs
from harness.reports.data.tables import FARTHEST
from harness.reports.packing import pack
from harness.reports.redaction import redacted
from harness.reports.sentences import telling
from harness.reports.words import gravity, weight

MAX_INSTANCES = 50_000
MAX_EVIDENCE = 60_000
"""Rows of each kind of evidence."""
NEIGHBOURS = 3
"""Offsets on each side of an instance's own whose records and batches are shown."""

FAULT_NAMED = re.compile(r"\bfault (\d+) \(")
_COUNTER_BITS = 40
_SEQUENCE_BITS = 32
_FIELDS = (
    "group", "client", "op", "value", "offset", "invoke", "complete", "other_op", "other_value",
    "other_offset", "node", "fault", "detail",
)  # fmt: skip

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomalies:
    """The groups and their instances, the gravest first."""

    groups: Sequence[Mapping[str, Any]]
    instances: Sequence[Mapping[str, Any]]
    """With the columns of _FIELDS and the raw `topic`, `partition`, numbers and times in ns."""
    left_out: int
    """Instances in verdict.json that are not here; more than those it names only are in counts."""


def list_anomalies(verdict: Mapping[str, Any]) -> Anomalies:
    """The anomalies of verdict.json; rows that are no objects are passed over."""
    found = [a for a in verdict.get("anomalies") or () if isinstance(a, dict)]
    found.sort(key=lambda a: (weight(str(a.get("judgement"))), gravity(str(a.get("kind")))))
    instances: list[dict[str, Any]] = []
    for place, anomaly in enumerate(found):
        rows = [row for row in anomaly.get("examples") or () if isinstance(row, dict)]
        instances.extend(
            row | {"group": place, "topic": anomaly.get("topic"),
                   "partition": anomaly.get("partition"), "kind": anomaly.get("kind")}
            for row in rows
        )  # fmt: skip
    order = [(weight(str(a.get("judgement"))), gravity(str(a.get("kind")))) for a in found]

    def place_of(instance: Mapping[str, Any]) -> tuple[Any, ...]:
        """The gravest first, then the earliest; of what is only worth knowing, the longest."""
        of = found[instance["group"]]
        began, ended = instance.get("invoke_ns") or 0, instance.get("complete_ns") or 0
        informational = of.get("judgement") == "informational"
        return order[instance["group"]], began - ended if informational else began, began

    instances.sort(key=place_of)
    return Anomalies(
        groups=[_group(a) for a in found],
        instances=instances[:MAX_INSTANCES],
        left_out=max(0, len(instances) - MAX_INSTANCES),
    )


def _group(anomaly: Mapping[str, Any]) -> dict[str, Any]:
    cause = str(anomaly.get("cause") or "")
    aspect = anomaly.get("part_of_log")
    return {
        "kind": str(anomaly.get("kind")),
        "judgement": str(anomaly.get("judgement")),
        "topic": anomaly.get("topic"),
        "partition": anomaly.get("partition"),
        "acks": anomaly.get("acks"),
        "aspect": f"{aspect} of the log" if aspect else str(anomaly.get("aspect") or ""),
        "cause": cause,
        "rule": str(anomaly.get("rule") or ""),
        "permission": _permission(anomaly),
        "count": int(anomaly.get("count") or 0),
        "faults": faults_named(cause),
    }


def _permission(anomaly: Mapping[str, Any]) -> str:
    """What permits it and what would have prevented it; empty where nothing permits it."""
    remedies = anomaly.get("prevented_by")
    if not anomaly.get("permitted_by") or not isinstance(remedies, list):
        return ""
    return (
        f"Permitted by {anomaly['permitted_by']}. Prevented by {' or '.join(map(str, remedies))}."
    )


def faults_named(cause: str) -> list[int]:
    """The faults that a cause names, each once: it may be one of several causes."""
    return list(dict.fromkeys(int(number) for number in FAULT_NAMED.findall(cause)))


def pack_anomalies(anomalies: Anomalies) -> str:
    """The list as a block: groups, tellings by kind, and the instances' columns."""
    columns: dict[str, list[Any]] = {name: [] for name in _FIELDS}
    for instance in anomalies.instances:
        for name, value in _shown(instance).items():
            columns[name].append(value)
    kinds = dict.fromkeys(str(group["kind"]) for group in anomalies.groups)
    return pack(
        {
            "groups": anomalies.groups,
            "tellings": {kind: telling(kind) for kind in kinds},
            "instances": columns,
            "left_out": anomalies.left_out,
        }
    )


def _shown(instance: Mapping[str, Any]) -> dict[str, Any]:
    other = instance.get("other_op")
    of_fault = other if instance.get("kind") == "recovery" else None
    return {
        "group": instance["group"],
        "client": instance.get("client"),
        "op": operation_name(instance.get("op")),
        "value": value_name(instance.get("value")),
        "offset": instance.get("offset"),
        "invoke": _microseconds(instance.get("invoke_ns")),
        "complete": _microseconds(instance.get("complete_ns")),
        "other_op": operation_name(other) if of_fault is None else None,
        "other_value": value_name(instance.get("other_value")),
        "other_offset": instance.get("other_offset"),
        "node": instance.get("node"),
        "fault": of_fault,
        "detail": str(instance.get("detail") or ""),
    }


def operation_name(op: Any) -> str | None:
    """Such as 3000-1172: who recorded it, and its number; None for what is no operation."""
    if not isinstance(op, int) or op >> _COUNTER_BITS <= 0:
        return None
    return f"{op >> _COUNTER_BITS}-{op & ((1 << _COUNTER_BITS) - 1)}"


def value_name(value: Any) -> str | None:
    """Such as 3:1115: a producer, and the how-manieth of its values."""
    if not isinstance(value, int):
        return None if value is None else str(value)
    if value >> _SEQUENCE_BITS <= 0:
        return str(value)
    return f"{value >> _SEQUENCE_BITS}:{value & ((1 << _SEQUENCE_BITS) - 1)}"


def _microseconds(at_ns: Any) -> int | None:
    return at_ns // 1000 if isinstance(at_ns, int) else None


def pack_evidence(db: Any, stored: Stored, anomalies: Anomalies) -> str:
    """Everything of the run's tables and logs that concerns the instances, as a block."""
    _want(db, anomalies.instances)
    rows, rows_out = _bounded(db, _ROWS)
    batches, batches_out = _bounded(db, _BATCHES)
    ends, _ = _bounded(db, _ENDS)
    epochs, _ = _bounded(db, _EPOCHS)
    cuts, _ = _bounded(db, _CUTS)
    logs = read_node_logs(stored.run_dir, stored.run, list(_windows(anomalies)))
    return pack(
        {
            "rows": [_history_row(row) for row in rows],
            "batches": batches,
            "ends": ends,
            "epochs": epochs,
            "cuts": cuts,
            "lines": logs.lines,
            "left_out": {"rows": rows_out, "batches": batches_out, "lines": logs.left_out},
            "neighbours": NEIGHBOURS,
        }
    )


def _windows(anomalies: Anomalies) -> Iterator[tuple[float, float]]:
    """When the graver instances happened, and when what caused them was over."""
    times = re.compile(r"([\d.]+) s\b")
    for instance in anomalies.instances:
        group = anomalies.groups[instance["group"]]
        at_ns = instance.get("invoke_ns")
        if group["judgement"] == "informational" or not isinstance(at_ns, int):
            continue
        told = [float(at) for at in times.findall(group["cause"]) if at.count(".") == 1]
        yield min([at_ns / 1e9, *told]), max([at_ns / 1e9, *told])


_WANTED = {
    "value": pa.schema([("value", pa.int64())]),
    "op": pa.schema([("op", pa.int64())]),
    "offset": pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("near", pa.int64())]),
}


def _want(db: Any, instances: Sequence[Mapping[str, Any]]) -> None:
    """The tables wanted_values, wanted_offsets and wanted_ops: what evidence is about."""
    values: dict[int, None] = {}
    ops: dict[int, None] = {}
    places: dict[tuple[str, int, int], None] = {}
    for each in instances:
        values.update(_whole_ones(each, "value", "other_value"))
        ops.update(_whole_ones(each, "op", "other_op"))
        topic, partition = each.get("topic"), each.get("partition")
        if isinstance(topic, str) and isinstance(partition, int):
            for offset in _whole_ones(each, "offset", "other_offset"):
                places[topic, partition, max(-FARTHEST, min(offset, FARTHEST))] = None
    wanted: Mapping[str, Iterator[Mapping[str, Any]]] = {
        "value": ({"value": value} for value in values),
        "op": ({"op": op} for op in ops),
        "offset": ({"topic": t, "partition": p, "near": near} for t, p, near in places),
    }
    for name, rows in wanted.items():
        take_over(db, f"wanted_{name}s", few_rows(rows, _WANTED[name]))


def _whole_ones(row: Mapping[str, Any], *names: str) -> dict[int, None]:
    found = (row.get(name) for name in names)
    return {value: None for value in found if isinstance(value, int)}


_ROWS = f"""
WITH around AS (SELECT DISTINCT topic, partition, unnest(range(near - {NEIGHBOURS},
    near + {NEIGHBOURS} + 1)) AS "offset" FROM wanted_offsets),
exact AS (SELECT DISTINCT topic, partition, near AS "offset" FROM wanted_offsets)
SELECT f, type, client, op, invoke_ns // 1000, complete_ns // 1000, topic, partition, value,
  "offset", leader_epoch, node, error
FROM history h
WHERE f NOT IN ('start', 'end', 'watermark') AND (
  value IN (SELECT value FROM wanted_values)
  OR (f <> 'poll' AND op IN (SELECT op FROM wanted_ops))
  OR (f = 'final-read' AND (topic, partition, "offset") IN (SELECT * FROM around))
  OR ((topic, partition, "offset") IN (SELECT * FROM exact)))
ORDER BY invoke_ns, op, topic, partition, "offset"
"""

_BATCHES = f"""
SELECT DISTINCT r.topic, r.partition, r.node, r.base_offset, r.last_offset, r.leader_epoch,
  left(r.digest, 6)
FROM replicas r JOIN wanted_offsets w ON r.topic = w.topic AND r.partition = w.partition
  AND r.base_offset <= w.near + {NEIGHBOURS} AND r.last_offset >= w.near - {NEIGHBOURS}
ORDER BY ALL
"""

_OF_WANTED = (
    "SEMI JOIN (SELECT DISTINCT topic, partition FROM wanted_offsets) USING (topic, partition)"
)

_ENDS = f"""
SELECT topic, partition, node, start_offset, end_offset, high_watermark
FROM replica_ends {_OF_WANTED} ORDER BY ALL
"""

_EPOCHS = f"""
WITH led AS (SELECT topic, partition, leader_epoch, arg_min(leader, at_ns) AS leader,
    min(at_ns) // 1000 AS since FROM cluster
  WHERE kind = 'leader' AND leader >= 0 GROUP BY topic, partition, leader_epoch),
final AS (SELECT topic, partition, leader_epoch, min(start_offset) AS first_offset,
    max(end_offset) AS end_offset FROM cluster WHERE kind = 'epoch'
  GROUP BY topic, partition, leader_epoch)
SELECT topic, partition, leader_epoch, leader, since, first_offset, end_offset
FROM led FULL JOIN final USING (topic, partition, leader_epoch) {_OF_WANTED} ORDER BY ALL
"""
"""Who led when, and what the final log has of it; an epoch that it has nothing of is there too."""

_CUTS = f"""
SELECT topic, partition, at_ns // 1000, node, end_offset
FROM cluster {_OF_WANTED} WHERE kind = 'truncation' ORDER BY ALL
"""


def _bounded(db: Any, query: str) -> tuple[list[Row], int]:
    """The first rows, and how many there are beyond."""
    rows = db.execute(query).fetchall()
    return rows[:MAX_EVIDENCE], max(0, len(rows) - MAX_EVIDENCE)


def _history_row(row: Row) -> list[Any]:
    f, kind, client, op, invoke, complete, topic, partition, value, *rest = row
    *numbers, error = rest
    return [
        f, kind, client, operation_name(op), invoke, complete, topic, partition,
        value_name(value), *numbers, redacted(error),
    ]  # fmt: skip
