"""Every recorded instance of an anomaly, and the evidence around it. The page shows one at a time.

verdict.json has groups of similar anomalies, each with an exact count and its first instances. This
module makes two blocks: the list that can be filtered (`pack_anomalies`), and the evidence (rows of
the history, batches of the replicas, leader epochs, log lines; `pack_evidence`), which the page
unpacks when it first needs it. Nothing is judged here; what is not shown is counted.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from checkers.history.arrow import few_rows, take_over
from harness.reports.data.loading import StoredRun
from harness.reports.data.losses import faults_in
from harness.reports.data.node_logs import read_node_logs
from harness.reports.data.tables import FARTHEST
from harness.reports.packing import pack
from harness.reports.redaction import redacted
from harness.reports.sentences import clauses_for
from harness.reports.words import judgement_order, kind_order

MAX_INSTANCES = 50_000
MAX_EVIDENCE = 60_000
"""The largest number of rows of each kind of evidence."""
NEIGHBOURS = 3
"""Offsets before and after an instance's offset whose records and batches are shown."""

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
    """The columns of _FIELDS, and the raw `topic`, `partition`, numbers and times in ns."""
    left_out: int
    """Instances of verdict.json that are not listed here. Others are only in the counts."""


def list_anomalies(verdict: Mapping[str, Any]) -> Anomalies:
    """Return the anomalies of verdict.json. Rows that are no objects are skipped."""
    found = [a for a in verdict.get("anomalies") or () if isinstance(a, dict)]
    found.sort(
        key=lambda a: (judgement_order(str(a.get("judgement"))), kind_order(str(a.get("kind"))))
    )
    instances: list[dict[str, Any]] = []
    for place, anomaly in enumerate(found):
        rows = [row for row in anomaly.get("examples") or () if isinstance(row, dict)]
        instances.extend(
            row | {"group": place, "topic": anomaly.get("topic"),
                   "partition": anomaly.get("partition"), "kind": anomaly.get("kind")}
            for row in rows
        )  # fmt: skip
    order = [
        (judgement_order(str(a.get("judgement"))), kind_order(str(a.get("kind")))) for a in found
    ]

    def place_of(instance: Mapping[str, Any]) -> tuple[Any, ...]:
        """The gravest first, then the earliest; informational ones by their length."""
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
        "faults": faults_in(cause),
    }


def _permission(anomaly: Mapping[str, Any]) -> str:
    """Return what permits an anomaly and what would have prevented it; empty without a
    permission."""
    remedies = anomaly.get("prevented_by")
    if not anomaly.get("permitted_by") or not isinstance(remedies, list):
        return ""
    return (
        f"Permitted by {anomaly['permitted_by']}. Prevented by {' or '.join(map(str, remedies))}."
    )


def pack_anomalies(anomalies: Anomalies) -> str:
    """Return the list as a block: groups, sentences by kind, and columns of the instances."""
    columns: dict[str, list[Any]] = {name: [] for name in _FIELDS}
    for instance in anomalies.instances:
        for name, value in _columns_of(instance).items():
            columns[name].append(value)
    kinds = dict.fromkeys(str(group["kind"]) for group in anomalies.groups)
    return pack(
        {
            "groups": anomalies.groups,
            "sentences": {kind: clauses_for(kind) for kind in kinds},
            "instances": columns,
            "left_out": anomalies.left_out,
        }
    )


def _columns_of(instance: Mapping[str, Any]) -> dict[str, Any]:
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
    """Return a name such as 3000-1172 (recorder-number); None for a number of no operation."""
    if not isinstance(op, int) or op >> _COUNTER_BITS <= 0:
        return None
    return f"{op >> _COUNTER_BITS}-{op & ((1 << _COUNTER_BITS) - 1)}"


def value_name(value: Any) -> str | None:
    """Return a name such as 3:1115 (producer:number of its value)."""
    if not isinstance(value, int):
        return None if value is None else str(value)
    if value >> _SEQUENCE_BITS <= 0:
        return str(value)
    return f"{value >> _SEQUENCE_BITS}:{value & ((1 << _SEQUENCE_BITS) - 1)}"


def _microseconds(at_ns: Any) -> int | None:
    return at_ns // 1000 if isinstance(at_ns, int) else None


def pack_evidence(db: Any, stored: StoredRun, anomalies: Anomalies) -> str:
    """Return all evidence about the instances, from the run's tables and logs, as a block."""
    _register_wanted(db, anomalies.instances)
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
    """Yield the times of the instances and of their causes. Informational ones are skipped."""
    times = re.compile(r"([\d.]+) s\b")
    for instance in anomalies.instances:
        group = anomalies.groups[instance["group"]]
        at_ns = instance.get("invoke_ns")
        if group["judgement"] == "informational" or not isinstance(at_ns, int):
            continue
        named = [float(at) for at in times.findall(group["cause"]) if at.count(".") == 1]
        yield min([at_ns / 1e9, *named]), max([at_ns / 1e9, *named])


_WANTED = {
    "value": pa.schema([("value", pa.int64())]),
    "op": pa.schema([("op", pa.int64())]),
    "offset": pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("near", pa.int64())]),
}


def _register_wanted(db: Any, instances: Sequence[Mapping[str, Any]]) -> None:
    """Create the tables wanted_values, wanted_offsets and wanted_ops: the subjects of the
    evidence."""
    values: dict[int, None] = {}
    ops: dict[int, None] = {}
    places: dict[tuple[str, int, int], None] = {}
    for each in instances:
        values.update(_integers(each, "value", "other_value"))
        ops.update(_integers(each, "op", "other_op"))
        topic, partition = each.get("topic"), each.get("partition")
        if isinstance(topic, str) and isinstance(partition, int):
            for offset in _integers(each, "offset", "other_offset"):
                places[topic, partition, max(-FARTHEST, min(offset, FARTHEST))] = None
    wanted: Mapping[str, Iterator[Mapping[str, Any]]] = {
        "value": ({"value": value} for value in values),
        "op": ({"op": op} for op in ops),
        "offset": ({"topic": t, "partition": p, "near": near} for t, p, near in places),
    }
    for name, rows in wanted.items():
        take_over(db, f"wanted_{name}s", few_rows(rows, _WANTED[name]))


def _integers(row: Mapping[str, Any], *names: str) -> dict[int, None]:
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
"""Leaders by epoch, and the offsets that the final log has of each epoch, also of empty epochs."""

_CUTS = f"""
SELECT topic, partition, at_ns // 1000, node, end_offset
FROM cluster {_OF_WANTED} WHERE kind = 'truncation' ORDER BY ALL
"""


def _bounded(db: Any, query: str) -> tuple[list[Row], int]:
    """Return the first rows, and how many more there are."""
    rows = db.execute(query).fetchall()
    return rows[:MAX_EVIDENCE], max(0, len(rows) - MAX_EVIDENCE)


def _history_row(row: Row) -> list[Any]:
    f, kind, client, op, invoke, complete, topic, partition, value, *rest = row
    *numbers, error = rest
    return [
        f, kind, client, operation_name(op), invoke, complete, topic, partition,
        value_name(value), *numbers, redacted(error),
    ]  # fmt: skip
