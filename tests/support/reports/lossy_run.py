"""A small run that lost writes: its history, final reads, replicas' files, leader epochs and node
logs agree with its verdict.

The acknowledged sends to acks-all/1 between LOST_FROM_S and LOST_TO_S are not in the final reads:
node 2 led in epoch 1 until fault 1 cut it off; epoch 2 of node 3 starts at the first lost offset.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from checkers.history.history import CLUSTER, HISTORY, REPLICA_ENDS, REPLICAS, table
from tests.support.reports.synthetic_run import Shape, judged_run

TOPIC, PARTITION = "acks-all", 1
LOST_FROM_S, LOST_TO_S = 22.0, 23.0
CAUSE = (
    "In acks-all-1, node 3 replaced node 2 as leader at 23.402 s (epoch 2). Writes from offset "
    "{first} on that only node 2 had were discarded. Node 2 noticed by 30.611 s. Faults that "
    "affected node 2: fault 1 (partition.isolate-leader node 2, 22.000 s to 30.200 s)."
)


def lossy_run(run_dir: Path, outcome: str = "INVALID", sends: int = 3_000) -> Path:
    """Write the run. Return its directory."""
    judged_run(run_dir, outcome, Shape(sends=sends))
    history = pyarrow.parquet.read_table(run_dir / "history" / "clients-1.parquet")
    rows = _numbered(history.to_pylist())
    lost = [row for row in rows if _is_lost(row)] if outcome == "INVALID" else []
    _write(run_dir / "history" / "clients-1.parquet", table(HISTORY, rows))
    _write(run_dir / "history" / "final.parquet", table(HISTORY, _final_reads(rows, lost)))
    _write(run_dir / "history" / "polls.parquet", table(HISTORY, _polls(rows)))
    if lost:
        first = lost[0]["offset"]
        _write(run_dir / "replicas.parquet", table(REPLICAS, _batches(first)))
        _write(run_dir / "replica_ends.parquet", table(REPLICA_ENDS, _ends(first)))
        cluster = pyarrow.parquet.read_table(run_dir / "cluster.parquet").to_pylist()
        _write(run_dir / "cluster.parquet", table(CLUSTER, [*cluster, *_epochs(first)]))
        _write_logs(run_dir)
        verdict = json.loads((run_dir / "verdict.json").read_text())
        verdict["anomalies"][0] |= {
            "count": len(lost),
            "examples": [_example(row) for row in lost[:20]],
            "cause": CAUSE.format(first=first),
        }
        (run_dir / "verdict.json").write_text(json.dumps(verdict))
    return run_dir


def _write(path: Path, rows: pa.Table) -> None:
    pyarrow.parquet.write_table(rows, path)


def _numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with consecutive offsets in each partition; some sends failed or got no
    answer."""
    for number, row in enumerate(rows):
        row["type"] = {7: "fail", 8: "info"}.get(number % 40, row["type"])
    ends: dict[tuple[str, int], int] = {}
    for row in sorted(rows, key=lambda row: row["invoke_ns"]):
        at = (row["topic"], row["partition"])
        row["offset"] = ends.get(at, 0) if row["type"] == "ok" else None
        ends[at] = ends.get(at, 0) + (row["type"] == "ok")
    return rows


def _is_lost(row: dict[str, Any]) -> bool:
    here = (row["topic"], row["partition"], row["type"]) == (TOPIC, PARTITION, "ok")
    return here and LOST_FROM_S <= row["invoke_ns"] / 1e9 <= LOST_TO_S


def _final_reads(rows: list[dict[str, Any]], lost: list[dict[str, Any]]) -> list[dict[str, Any]]:
    gone = {row["value"] for row in lost}
    common = {"op": 9 << 40, "client": 9, "type": "ok", "invoke_ns": 95 * 10**9,
              "complete_ns": 96 * 10**9}  # fmt: skip
    names = ("topic", "partition", "value", "offset")
    read = [
        common | {"f": "final-read"} | {name: row[name] for name in names}
        for row in rows
        if row["type"] == "ok" and row["value"] not in gone
    ]
    ends = {(row["topic"], row["partition"]) for row in rows}
    return read + [
        common | {"f": "final-read-end", "topic": topic, "partition": partition}
        for topic, partition in sorted(ends)
    ]


def _polls(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The polls of a consumer, client 50: ten records at a time, 1 s after they were written."""
    here = [r for r in rows if (r["topic"], r["partition"], r["type"]) == (TOPIC, PARTITION, "ok")]
    return [
        {"op": (50 << 40) + n // 10, "client": 50, "f": "poll", "type": "ok", "topic": TOPIC,
         "partition": PARTITION, "invoke_ns": here[n - n % 10]["invoke_ns"] + 10**9,
         "complete_ns": here[n - n % 10]["invoke_ns"] + 10**9 + 4_000_000,
         "value": row["value"], "offset": row["offset"]}
        for n, row in enumerate(here)
    ]  # fmt: skip


def _batches(first: int) -> list[dict[str, Any]]:
    """Batches of one record. The files of node 2 still have the lost records of epoch 1."""
    return [
        {"node": node, "topic": TOPIC, "partition": PARTITION, "base_offset": offset,
         "last_offset": offset, "crc": offset, "size": 90,
         "leader_epoch": 1 if node == 2 or offset < first else 2,
         "digest": f"{node if node == 2 and offset >= first else 0}{offset:05d}abcdef"}
        for node in (1, 2, 3) for offset in range(max(0, first - 5), first + 25)
    ]  # fmt: skip


def _ends(first: int) -> list[dict[str, Any]]:
    return [
        {"node": node, "topic": TOPIC, "partition": PARTITION, "start_offset": 0,
         "end_offset": first + 25, "high_watermark": first + 25}
        for node in (1, 2, 3)
    ]  # fmt: skip


def _epochs(first: int) -> list[dict[str, Any]]:
    common = {"at_ns": 96 * 10**9, "node": 3, "topic": TOPIC, "partition": PARTITION}
    return [
        common | {"kind": "epoch", "leader": 3, "leader_epoch": 1, "start_offset": 0,
                  "end_offset": first},
        common | {"kind": "epoch", "leader": 3, "leader_epoch": 2, "start_offset": first,
                  "end_offset": first + 400},
        common | {"kind": "truncation", "node": 2, "at_ns": 30_611_000_000, "end_offset": first},
    ]  # fmt: skip


def _example(row: dict[str, Any]) -> dict[str, Any]:
    names = ("op", "client", "value", "offset", "invoke_ns", "complete_ns")
    return {name: row[name] for name in names} | {"detail": "its offset holds another value"}


def _write_logs(run_dir: Path) -> None:
    run = json.loads((run_dir / "run.json").read_text())
    base_s = run["monotonic_base_ns"] / 1e9
    said = [
        (23.1, "INFO nodes.raft: leads epoch 2 from offset 43"),
        (23.4, "INFO nodes.replicas: acks-all-1: leads in epoch 2, password=hunter2"),
        (75.0, "INFO nodes: of no interest"),
    ]
    (run_dir / "nodes" / "3").mkdir(parents=True)
    (run_dir / "nodes" / "3" / "node.log").write_text(
        "".join(f"{base_s + at_s:.6f} {text}\n" for at_s, text in said)
    )
