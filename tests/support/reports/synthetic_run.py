"""Run directories like those of real runs, made without a cluster, for tests of their readers.

A seeded generator makes whole columns at once, so that half a million rows take a moment.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from checkers.contract.contract import CONTRACT
from checkers.history.history import CLUSTER, FAULTS, HISTORY, table

ACKS = {"acks-0": 0, "acks-1": 1, "acks-all": -1}
NODES = (1, 2, 3)
PARTITIONS = 3
SPAN_S = 98.0
LATENCY_MS = {0: 0.12, 1: 0.9, -1: 2.4}

# id, fault, label, asked, resolved, nodes, drops, planned ms, start s, end s, proof
FAULT_ROWS: Sequence[tuple[Any, ...]] = (
    (0, "kill", "kill node 1", "leader:acks-0/0", "leader of acks-0/0 is node 1", [1], [],
     3000, 9.0, 13.1, "node 1: no process 41327"),
    (1, "partition.isolate-leader", "partition.isolate-leader node 2", "leader:acks-1/0",
     "leader of acks-1/0 is node 2", [2], [[1, 2], [2, 1], [2, 3], [3, 2]],
     16000, 22.0, 30.2, "611 packets dropped (1>2 201, 2>1 96, 2>3 88, 3>2 226)"),
    (2, "kill", "kill node 3", "leader:acks-all/1", "leader of acks-all/1 is node 3", [3], [],
     34000, 40.0, 44.1, "node 3: no process 41377"),
    (3, "pause", "pause node 1", "leader:acks-1/1", "leader of acks-1/1 is node 1", [1], [],
     47000, 53.0, 59.1, "node 1 is in state T"),
    (4, "partition.random-halves", "partition.random-halves", "all", "all nodes", [],
     [[1, 3], [3, 1], [2, 3], [3, 2]], 60000, 66.0, 71.1, "402 packets dropped"),
    (5, "partition.one-way", "partition.one-way node 1", "controller", "controller is node 1",
     [1], [[2, 1], [3, 1]], 72000, 78.0, 83.0, "310 packets dropped (2>1 166, 3>1 144)"),
)  # fmt: skip

CLOCK_ROWS: Sequence[dict[str, Any]] = tuple(
    {"at_ns": round(at_s * 1e9), "kind": "clock", "node": node, "ahead_ms": ahead_ms}
    for at_s, node, ahead_ms in ((20.0, 2, 60_000.0), (35.0, 3, -9_000.0), (50.0, 2, 0.0))
)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What kind of run is made."""

    sends: int = 4_000
    seed: int = 7
    topics: Mapping[str, int] = field(default_factory=lambda: dict(ACKS))


def write_run(run_dir: Path, shape: Shape | None = None) -> pa.Table:
    """A sealed run without a verdict; returns its history."""
    shape = shape or Shape()
    (run_dir / "history").mkdir(parents=True)
    plan = {
        "name": "first-light", "seed": 2011, "target": "local", "system": "nodes", "nodes": 3,
        "broker_module": "nodes", "duration_s": 80, "warmup_s": 5, "settle_timeout_s": 40,
        "topics": [
            {"name": name, "acks": acks, "partitions": PARTITIONS, "replication_factor": 3,
             "min_insync_replicas": 2, "idempotence": acks == -1}
            for name, acks in shape.topics.items()
        ],
        "workload": {"producers": 2, "consumers": 1, "rate_per_s": 200, "value_bytes": 128},
    }  # fmt: skip
    run = {
        "run_id": "9f2c61d0a4be77f3", "started_wall_ns": 1_795_196_400_000_000_000,
        "monotonic_base_ns": 0, "commit": "a16ec80b4c1df6aa10c7a3c15a26a0ee20e0ce9a",
        "versions": {"highwater": "0.1.0", "python": "3.11.2", "librdkafka": "2.8.0",
                     "linux": "6.1.0-18-cloud-amd64"},
        "finished": ["deploy", "warm up", "chaos", "heal", "settle", "final reads", "collect"],
    }  # fmt: skip
    (run_dir / "plan.json").write_text(json.dumps(plan))
    (run_dir / "run.json").write_text(json.dumps(run))
    history = sends(shape)
    pa.parquet.write_table(history, run_dir / "history" / "clients-1.parquet")
    pa.parquet.write_table(table(FAULTS, fault_rows()), run_dir / "faults.parquet")
    cluster = table(CLUSTER, [*leader_rows(list(shape.topics)), *CLOCK_ROWS])
    pa.parquet.write_table(cluster, run_dir / "cluster.parquet")
    return history


def sends(shape: Shape) -> pa.Table:
    """Sends of six producers; slow, failed or without an answer while a fault is in force."""
    rng = np.random.default_rng(shape.seed)
    count = shape.sends
    names = list(shape.topics)
    which = np.arange(count) % len(names)
    acks = np.array([shape.topics[name] for name in names])[which]
    invoke_s = np.sort(rng.uniform(1.0, 92.0, count))
    median = np.array([LATENCY_MS[shape.topics[name]] for name in names])[which]
    latency_ms = median * rng.lognormal(0.0, 0.35, count)
    slow = rng.random(count) < 0.004
    latency_ms[slow] *= rng.uniform(5, 60, slow.sum())
    kind = np.full(count, "ok", dtype=object)
    partition = rng.integers(0, PARTITIONS, count)
    for row in FAULT_ROWS:
        start_s, end_s = row[8], row[9]
        # A partition's sends wait until it has another leader; the rest goes on.
        stalled = (
            (invoke_s > start_s) & (invoke_s < start_s + 1.4) & (partition == row[0] % 3)
            & (acks != 0)
        )  # fmt: skip
        latency_ms[stalled] = (start_s + 1.4 - invoke_s[stalled]) * 1e3 + rng.uniform(
            1, 90, stalled.sum()
        )
        hit = (invoke_s > start_s) & (invoke_s < end_s)
        kind[hit & (rng.random(count) < 0.004)] = "fail"
        kind[stalled & (rng.random(count) < 0.08)] = "info"
        latency_ms[hit & (acks == -1)] *= rng.uniform(1, 3)
    invoke_ns = (invoke_s * 1e9).astype(np.int64)
    complete_ns = invoke_ns + (latency_ms * 1e6).astype(np.int64)
    unanswered = (kind == "info") & (rng.random(count) < 0.3)
    client = 1 + which * 2 + rng.integers(0, 2, count)
    columns = {
        "op": (client.astype(np.int64) << 40) + np.arange(count),
        "client": client.astype(np.int32),
        "f": np.full(count, "send", dtype=object),
        "type": kind,
        "invoke_ns": invoke_ns,
        "complete_ns": pa.array(complete_ns, mask=unanswered),
        "topic": np.array(names, dtype=object)[which],
        "partition": partition.astype(np.int32),
        "value": (client.astype(np.int64) << 32) + np.arange(count),
        "offset": np.arange(count, dtype=np.int64) // 9,
        "acks": acks.astype(np.int8),
    }
    arrays = [
        pa.array(columns[f.name], type=f.type) if f.name in columns else pa.nulls(count, f.type)
        for f in HISTORY
    ]
    return pa.Table.from_arrays(arrays, schema=HISTORY)


def fault_rows() -> list[dict[str, Any]]:
    """The six faults, the last of which did not take effect."""
    return [
        {
            "fault_id": number, "fault": fault, "label": label,
            "targets": json.dumps(
                {"asked": asked, "resolved": resolved}
                | ({"nodes": nodes} if nodes else {})
                | ({"cuts": [[*drop, 0] for drop in drops]} if drops else {})
            ),
            "planned_ms": planned_ms, "started_ns": int(start_s * 1e9),
            "effective_ns": int(start_s * 1e9) + 120_000_000 if number != 5 else None,
            "healed_ns": int(end_s * 1e9),
            "effect": proof if number != 5 else "0 packets dropped (2>1 0, 3>1 0)",
            "healing": "everything is as it was", "inject_ms": 1.25, "heal_ms": 31.5,
            "took_effect": number != 5, "error": None,
        }
        for (number, fault, label, asked, resolved, nodes, drops, planned_ms, start_s, end_s, proof)
        in FAULT_ROWS
    ]  # fmt: skip


def leader_rows(topics: Sequence[str]) -> list[dict[str, Any]]:
    """Leaders move off a touched node and the ISR loses it until the fault is healed."""
    rows = []
    for number, topic in enumerate(topics):
        for partition in range(PARTITIONS):
            leader, epoch = NODES[(partition + number) % 3], 0
            common = {"kind": "leader", "topic": topic, "partition": partition, "source": "polled"}

            def row(at_s: float, leader: int | None, epoch: int, isr: Sequence[int],
                    common: dict[str, Any] = common) -> None:  # fmt: skip
                rows.append(
                    common | {"at_ns": int(at_s * 1e9), "leader": leader, "leader_epoch": epoch,
                              "isr": list(isr)}
                )  # fmt: skip

            row(0.8, leader, epoch, NODES)
            for fault in FAULT_ROWS[:5]:
                touched, start_s, end_s = (fault[5] or [3])[0], fault[8], fault[9]
                rest = [node for node in NODES if node != touched]
                epoch += 1
                if leader == touched:
                    row(start_s + 1.1, None, epoch, rest)
                    epoch += 1
                    leader = rest[partition % 2]
                row(start_s + 1.4, leader, epoch, rest)
                row(end_s + 0.9, leader, epoch, NODES)
    return rows


def verdict(history: pa.Table, outcome: str, topics: Mapping[str, int] = ACKS) -> dict[str, Any]:
    """A verdict.json that fits the history: VALID, INVALID (acks=all lost 12) or UNKNOWN."""
    lost = {0: 105, 1: 48, -1: 12 if outcome == "INVALID" else 0}
    anomalies = _losses(outcome, topics)
    detectors = [
        {"name": name, "status": "ok", "count": count, "seconds": seconds, "detail": ""}
        for name, count, seconds in (
            ("lost-write", sum(lost.values()), 0.41), ("duplicate", 9, 0.22),
            ("inconsistent-offset", 0, 0.35), ("reordered-send", 3, 0.19), ("poll-skip", 0, 0.52),
            ("nonmonotonic-poll", 0, 0.11), ("phantom", 0, 0.08), ("aborted-read", 0, 0.13),
            ("watermark-regression", 0, 0.06), ("divergent-replicas", 0, 0.09),
            ("unavailable", 3, 0.2),
        )
    ]  # fmt: skip
    reasons = {
        "VALID": ["No violations. All checks that the verdict relies on passed."],
        "INVALID": [
            f"12 lost-write in acks-all-1 ({anomalies[0]['rule']})",
            "detector divergent-replicas nothing-to-judge: no replica files were collected",
        ],
        "UNKNOWN": [
            "final reads complete: no: 4 of 9 partitions were not read to their end",
            "recorders ended in order: no: clients 1, 2 and 5 have no end row",
        ],
    }[outcome]
    complete = outcome != "UNKNOWN"
    return {
        "verdict": outcome, "reasons": reasons,
        "assumptions": [
            {"name": "values are unique", "holds": True, "decisive": True,
             "detail": "no value was sent twice"},
            {"name": "final reads complete", "holds": complete, "decisive": True,
             "detail": "9 of 9 partitions were read to their end" if complete
             else "4 of 9 partitions were not read to their end"},
            {"name": "recorders ended in order", "holds": complete, "decisive": False,
             "detail": "9 of 9 clients" if complete else "clients 1, 2 and 5 have no end row"},
        ],
        "topics": [_topic(history, name, acks, lost[acks], outcome)
                   for name, acks in topics.items()],
        "anomalies": anomalies, "contract": [rule.as_json() for rule in CONTRACT],
        "detectors": detectors, "engine": "duckdb 1.5.6", "checked_at": "2026-11-20T17:41:10Z",
    }  # fmt: skip


def _topic(history: pa.Table, name: str, acks: int, lost: int, outcome: str) -> dict[str, Any]:
    chosen = history.filter(pa.compute.equal(history["topic"], name))
    kinds = chosen["type"].to_pylist()
    causes = [
        {"count": lost - lost // 3, "cause": CAUSES[0]},
        {"count": lost // 3, "cause": CAUSES[1]},
    ]
    if acks == -1:
        causes = [{"count": lost, "cause": None}]
    return {
        "topic": name, "acks": acks, "idempotence": acks == -1, "sent": len(kinds),
        "acked": kinds.count("ok"), "failed": kinds.count("fail"),
        "indeterminate": kinds.count("info"), "lost": lost,
        "lost_permitted": 0 if acks == -1 else lost, "lost_forbidden": lost if acks == -1 else 0,
        "duplicated": 9 if acks == 1 else 0, "reordered": 3 if acks == 0 else 0,
        "p50_ms": LATENCY_MS[acks], "p99_ms": LATENCY_MS[acks] * 9,
        "loss_causes": causes if lost else [],
    }  # fmt: skip


CAUSES = (
    "In acks-1-1, node 3 replaced node 2 as leader at 23.402 s (epoch 5). Writes from offset 1234 "
    "on that only node 2 had were discarded. Node 2 noticed by 30.611 s. Faults that affected "
    "node 2: fault 1 (partition.isolate-leader node 2, 22.000 s to 30.200 s).",
    "In acks-0-1, node 2 replaced node 1 as leader at 54.402 s (epoch 7). Writes from offset 4410 "
    "on that only node 1 had were discarded. Node 1 noticed by 59.803 s. Faults that affected "
    "node 1: fault 3 (pause node 1, 53.000 s to 59.100 s).",
)


def _rule(anomaly: str, judgement: str, configuration: str = "") -> str:
    """Return the text of the first such row of the contract."""
    return next(
        rule.text
        for rule in CONTRACT
        if (rule.anomaly, rule.judgement) == (anomaly, judgement)
        and rule.configuration.startswith(configuration)
    )


RULES = (
    _rule("lost-write", "permitted", "acks=0"),
    _rule("lost-write", "permitted", "acks=1"),
    _rule("lost-write", "forbidden", "acks=all"),
)


def _losses(outcome: str, topics: Mapping[str, int]) -> list[dict[str, Any]]:
    names = {acks: name for name, acks in topics.items()}
    made = []
    if outcome == "INVALID":
        made.append(_lost(names[-1], -1, 12, "forbidden", None, RULES[2]))
    made.append(_lost(names[1], 1, 32, "permitted", CAUSES[0], RULES[1]))
    made.append(_lost(names[0], 0, 105, "permitted", CAUSES[1], RULES[0]))
    made.append({
        "kind": "unavailable", "topic": names[1], "partition": 0, "acks": 1,
        "judgement": "informational", "count": 1, "rule": _rule("unavailable", "informational"),
        "examples": [{"kind": "unavailable", "topic": names[1], "partition": 0, "acks": 1,
                      "invoke_ns": 22_004_113_200, "complete_ns": 23_480_733_901,
                      "detail": "1.477 s"}],
    })  # fmt: skip
    return made


def _lost(
    topic: str, acks: int, count: int, judgement: str, cause: str | None, rule: str
) -> dict[str, Any]:
    examples = [
        {
            "kind": "lost-write", "aspect": "tail", "topic": topic, "partition": 1, "acks": acks,
            "cause_id": None, "op": (3 << 40) + n, "client": 3, "value": (3 << 32) + 4100 + n,
            "offset": 1234 + n if acks else None, "invoke_ns": 22_400_000_000 + n * 2_111_333,
            "complete_ns": 22_401_100_000 + n * 2_111_333, "other_op": None,
            "other_value": (4 << 32) + 4000 + n, "other_offset": None, "node": 2,
            "detail": "its offset holds another value",
        }
        for n in range(min(count, 10))
    ]  # fmt: skip
    permission = {
        "permitted_by": f"acks={acks}",
        "prevented_by": ["acks=all with min.insync.replicas=2"],
    }
    return {
        "kind": "lost-write", "topic": topic, "partition": 1, "acks": acks, "judgement": judgement,
        "count": count, "rule": rule, "examples": examples,
        **(permission if judgement == "permitted" else {}),
    } | ({"cause": cause} if cause else {}) | ({"part_of_log": "tail"} if acks else {})  # fmt: skip


def judged_run(run_dir: Path, outcome: str, shape: Shape | None = None) -> Path:
    """A run with its verdict: VALID with permitted losses, INVALID, or UNKNOWN."""
    shape = shape or Shape()
    history = write_run(run_dir, shape)
    found = verdict(history, outcome, shape.topics)
    (run_dir / "verdict.json").write_text(json.dumps(found))
    return run_dir


def killed_run(run_dir: Path) -> Path:
    """The harness was killed during chaos: streams cut in the middle, no tables, no verdict."""
    history = write_run(run_dir, Shape(sends=9_000))
    (run_dir / "history" / "clients-1.parquet").unlink()
    stream = run_dir / "history" / "clients-1.arrows"
    with pa.OSFile(str(stream), "wb") as file, pa.ipc.new_stream(file, HISTORY) as writer:
        for batch in history.slice(0, 4_000).to_batches(max_chunksize=500):
            writer.write_batch(batch)
    stream.write_bytes(stream.read_bytes()[:-300])
    (run_dir / "faults.parquet").unlink()
    (run_dir / "cluster.parquet").unlink()
    run = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps(run | {"finished": ["deploy", "warm up"]}))
    return run_dir
