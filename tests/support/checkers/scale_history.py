"""Run directories of any size with known anomalies in them, written by the database itself.

One topic with acks=all. Send number i goes to partition i % partitions, at offset i // partitions;
one consumer per partition polls it all, and a final read holds the log. The history is that of a
healthy run but for what is planted, a few of every kind, spread over the whole run.

    write_run             a run directory, and what was planted in it
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import lcm
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet

from checkers.history.history import CLUSTER, FAULTS, HISTORY, METADATA_TOPIC, REPLICA_ENDS, table

TOPIC = "orders"
STEP_NS = 20_000
"""From one send to the next: 50,000 sends a second."""

CLIENTS = 8
FAILING, CONSUMERS, ASKER, DOUBTER, READER = 20, 101, 201, 401, 301
"""Numbers of clients; the consumers are four, and a doubter asks for one end offset only."""

POLL = 100
BATCH = 100
NODES = (1, 2, 3)

ROLES = ("lost", "late", "swapped", "skipped", "misplaced", "truncated", "rewound")
"""What may be done to a send: see `_SENDS`, `_POLLS`, `_FINAL` and `_Run.rewind`."""

KIND_OF = {
    "lost": "lost-write", "late": "reordered-ack", "swapped": "reordered-send",
    "skipped": "poll-skip", "misplaced": "inconsistent-offset", "truncated": "truncated-read",
    "rewound": "nonmonotonic-poll",
}  # fmt: skip


POLLS, READS, BESIDE = 1 << 38, 1 << 39, 3 << 38
"""From where on operations are numbered: polls, final reads, and what is beside the regular ones;
sends from 1 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """sends: to all partitions together; each: how many anomalies of every kind."""

    sends: int
    partitions: int = 64
    each: int = 10

    @property
    def least_sends(self) -> int:
        """So many that no two planted ones meet in one poll, and that they take over a second."""
        return max(60_000, (len(ROLES) * self.each + 2) * POLL * self.partitions)

    @property
    def per_partition(self) -> int:
        """Offsets of a partition, 0 .. per_partition - 1, before what is planted behind them."""
        return self.sends // self.partitions

    @property
    def gap(self) -> int:
        """From a send to the next of the same client to the same partition, in sends."""
        return lcm(self.partitions, CLIENTS)

    @property
    def latency_ns(self) -> int:
        """The least latency: two sends of a client are always in flight together."""
        return 2 * self.gap * STEP_NS + 2_000_000

    @property
    def end_ns(self) -> int:
        """When everything was sent and polled."""
        return self.sends * STEP_NS + 10 * self.latency_ns + 20_000_000_000


@dataclass(slots=True)
class _Run:
    """A run in the making: what happens to single sends, and rows beside the regular ones."""

    size: Size
    roles: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Send -> what is done to it, and which send lies in its place."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    planted: Counter[str] = field(default_factory=Counter)
    ends: dict[int, int] = field(default_factory=dict)
    ops: int = BESIDE

    def row(self, f: str, client: int, at_ns: int, **columns: Any) -> None:
        """A row beside the regular ones, that took 1 ms."""
        self.ops += 1
        times = {"invoke_ns": at_ns, "complete_ns": at_ns + 1_000_000}
        made = {"op": self.ops, "client": client, "f": f, "type": "ok"}
        where = {} if "partition" not in columns else {"topic": TOPIC}
        self.rows.append(made | times | where | columns)

    def append(self, partition: int, value: int, kind: str) -> None:
        """One more record at the end of a partition."""
        offset = self.ends.setdefault(partition, self.size.per_partition)
        self.ends[partition] += 1
        self.row("final-read", READER, self.size.end_ns,
                 partition=partition, offset=offset, value=value)  # fmt: skip
        self.planted[kind] += 1


def value_of(send: int) -> int:
    """The value of a regular send."""
    return (1 + send % CLIENTS) << 32 | send + 1


_VALUE = f"(1 + i % {CLIENTS}) * {1 << 32} + i + 1"

_SENDS = f"""
SELECT i + 1 AS op, (1 + i % {CLIENTS})::INT AS client,
  'send' AS f, CASE WHEN unsure THEN 'info' ELSE 'ok' END AS "type", invoke_ns,
  CASE WHEN i % 1010 = 7 AND unsure THEN NULL ELSE
    invoke_ns + $latency_ns + hash(i) % 1000000 END AS complete_ns,
  '{TOPIC}' AS topic, (i % $partitions)::INT AS partition, {_VALUE} AS value,
  CASE WHEN NOT unsure THEN place // $partitions +
    CASE WHEN role = 'misplaced' THEN 2 * $per_partition ELSE 0 END END AS "offset",
  CASE WHEN NOT unsure THEN 0 END AS leader_epoch, -1 AS acks,
  CASE WHEN NOT unsure THEN 1 + (i % $partitions) % 3 END AS node,
  CASE WHEN unsure THEN '_MSG_TIMED_OUT' END AS error
FROM (SELECT i, role, coalesce(other, i) AS place,
  i * {STEP_NS} + CASE WHEN role = 'late' THEN 3 * $latency_ns ELSE 0 END AS invoke_ns,
  CASE WHEN role IS NULL THEN i % 101 = 7 ELSE role = 'truncated' END AS unsure
  FROM (SELECT range AS i FROM range($sends)) LEFT JOIN roles USING (i))
"""

_READ = f"""
'{TOPIC}' AS topic, (i % $partitions)::INT AS partition,
  (1 + coalesce(other, i) % {CLIENTS}) * {1 << 32} + coalesce(other, i) + 1 AS value,
  i // $partitions AS "offset"
  FROM (SELECT range AS i FROM range($sends)) LEFT JOIN roles USING (i)
"""

_POLLS = f"""
SELECT {POLLS} + 4 * ((i // $partitions // {POLL}) * $partitions + i % $partitions) AS op,
  ({CONSUMERS} + i % $partitions % 4)::INT AS client, 'poll' AS f, 'ok' AS "type",
  (i // $partitions // {POLL} + 1) * {POLL} * $partitions * {STEP_NS} + 5 * $latency_ns
    AS invoke_ns, invoke_ns + 1000000 AS complete_ns, {_READ}
WHERE role IS NULL OR role NOT IN ('lost', 'skipped')
"""

_FINAL = f"""
SELECT {READS} + i // $partitions // {POLL} * $partitions + i % $partitions AS op,
  {READER}::INT AS client, 'final-read' AS f, 'ok' AS "type",
  $end_ns + i * 100 AS invoke_ns, invoke_ns + 1000000 AS complete_ns, {_READ}
WHERE role IS NULL OR role NOT IN ('lost', 'truncated')
"""

_REPLICAS = f"""
SELECT (node)::INT AS node, '{TOPIC}' AS topic, p::INT AS partition, b * {BATCH} AS base_offset,
  least((b + 1) * {BATCH}, $per_partition) - 1 AS last_offset, 0 AS leader_epoch,
  (hash(p * 100003 + b) % 4294967296)::BIGINT AS crc,
  md5(concat(p, '-', b, CASE WHEN node = 1 + (p + 1) % 3 AND p = 0 AND b < $each THEN '!' END))
    AS digest, 102400::BIGINT AS size
FROM range($partitions) AS _p(p), range(($per_partition + {BATCH} - 1) // {BATCH}) AS _b(b),
  (VALUES (1), (2), (3)) AS _n(node)
UNION ALL
SELECT node, '{TOPIC}', p::INT, $per_partition, "end" - 1, 0, 0, 'behind', 100
FROM behind, (VALUES (1), (2), (3)) AS _n(node)
"""


def write_run(folder: Path, size: Size, *, memory: str = "2GB") -> Mapping[str, int]:
    """Write a run directory into the new `folder`; {kind: how many were planted}.

    sends must be a multiple of partitions, and not less than `least_sends`.
    """
    run = _Run(size)
    _plant_in_sends(run)
    _plant_beside(run)
    _ask_for_ends(run)
    (folder / "history").mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(_plan(size)))
    phases = {"finished": ["settle", "final reads", "collect"], "epoch_problems": []}
    (folder / "run.json").write_text(json.dumps(phases))
    with duckdb.connect(config={"memory_limit": memory, "temp_directory": str(folder)}) as db:
        _write_regular(db, folder, run)
    clients = [*range(1, 1 + CLIENTS), FAILING, *range(CONSUMERS, CONSUMERS + 4), ASKER, READER]
    for client in [*clients, *range(DOUBTER, DOUBTER + size.each)]:
        run.row("start", client, 0)
        run.row("end", client, 2 * size.end_ns)
    for partition in range(size.partitions):
        end = run.ends.get(partition, size.per_partition)
        run.row("assign", CONSUMERS + partition % 4, 0, op=0, partition=partition, offset=0)
        run.row("final-read-end", READER, 2 * size.end_ns, partition=partition, offset=end)
    _write(folder / "history" / "rest.parquet", HISTORY, run.rows)
    _write_tables(folder, run)
    return run.planted


def _plant_in_sends(run: _Run) -> None:
    size, count = run.size, len(ROLES) * run.size.each
    for number in range(count):
        role = ROLES[number % len(ROLES)]
        send = (number + 1) * size.sends // (count + 2)
        # In the middle of a poll, so that what follows it is as usual.
        offset = send // size.partitions // POLL * POLL + POLL // 2
        send = offset * size.partitions + send % size.partitions
        run.planted[KIND_OF[role]] += 1
        if role == "swapped":
            other = send + size.gap
            run.roles[send], run.roles[other] = (role, other), (role, send)
        elif role == "rewound":
            _rewind(run, send)
        else:
            run.roles[send] = (role, send)


def _rewind(run: _Run, send: int) -> None:
    """After its poll, the consumer is given a record once more; then it goes on by assignment."""
    partition, offset = send % run.size.partitions, send // run.size.partitions
    client, poll = CONSUMERS + partition % 4, offset // POLL
    op = POLLS + 4 * (poll * run.size.partitions + partition)
    at_ns = (poll + 1) * POLL * run.size.partitions * STEP_NS + 5 * run.size.latency_ns + 2_000_000
    run.row("poll", client, at_ns, op=op + 1, partition=partition, offset=offset,
            value=value_of(send))  # fmt: skip
    beyond = (poll + 1) * POLL
    run.row("assign", client, at_ns, op=op + 2, partition=partition, offset=beyond)


def _plant_beside(run: _Run) -> None:
    size = run.size
    for number in range(size.each):
        partition = number % size.partitions
        again = (number + 1) * (size.sends // (size.each + 2)) // size.partitions * size.partitions
        again += partition + size.partitions * 3
        assert again not in run.roles
        run.roles[again] = ("repeated", again)
        run.append(partition, value_of(again), "duplicate")
        failed = FAILING << 32 | number
        run.row("send", FAILING, 1_000_000 * number, type="fail", partition=partition,
                value=failed, acks=-1)  # fmt: skip
        run.append(partition, failed, "aborted-read")
        run.append(partition, FAILING << 32 | 1 << 30 | number, "phantom")
    run.planted["divergent-replicas"] += size.each
    run.planted["contradicted-evidence"] += min(size.each, size.partitions)


def _ask_for_ends(run: _Run) -> None:
    """Every second of every partition, now and then once more with a lesser answer; and a client
    each that asks late and is told of nothing."""
    size = run.size
    seconds = max(1, size.sends * STEP_NS // 1_000_000_000)
    asks = [(s, p) for s in range(1, 1 + seconds) for p in range(size.partitions)]
    receding = {asks[(n + 1) * len(asks) // (size.each + 2)] for n in range(size.each)}
    run.planted["watermark-regression"] += len(receding)
    for second, partition in asks:
        at_ns = second * 1_000_000_000
        sent = min(size.sends, at_ns // STEP_NS)
        end = (sent - partition + size.partitions - 1) // size.partitions
        answer = {"partition": partition, "leader_epoch": 0, "node": 1 + partition % 3}
        run.row("watermark", ASKER, at_ns, offset=end, **answer)
        if (second, partition) in receding:
            run.row("watermark", ASKER, at_ns + 2_000_000, offset=end - 1, **answer)
    for number in range(size.each):
        partition = number % size.partitions
        run.row("watermark", DOUBTER + number, size.end_ns, partition=partition, offset=0,
                leader_epoch=0, node=1 + partition % 3)  # fmt: skip
        run.planted["uncommitted-read"] += 1


def _write_regular(db: duckdb.DuckDBPyConnection, folder: Path, run: _Run) -> None:
    size = run.size
    columns = {
        "i": pa.array(list(run.roles), pa.int64()),
        "role": [role for role, _ in run.roles.values()],
        "other": pa.array([other for _, other in run.roles.values()], pa.int64()),
    }
    db.register("roles", pa.table(columns))
    behind = {"p": list(run.ends), "end": list(run.ends.values())}
    db.register("behind", pa.table({name: pa.array(c, pa.int64()) for name, c in behind.items()}))
    db.execute("SET preserve_insertion_order = true")
    numbers = {
        "sends": size.sends,
        "partitions": size.partitions,
        "per_partition": size.per_partition,
        "latency_ns": size.latency_ns,
        "end_ns": size.end_ns,
        "each": size.each,
    }
    kinds = {str(pa.int64()): "BIGINT", str(pa.int32()): "INTEGER", str(pa.int8()): "TINYINT"}
    for name, query in (("sends", _SENDS), ("polls", _POLLS), ("final", _FINAL)):
        for known, number in numbers.items():
            query = query.replace(f"${known}", str(number))
        db.execute(f"CREATE TEMP VIEW {name} AS {query}")
        have = {row[0] for row in db.execute(f"DESCRIBE {name}").fetchall()}
        made = ", ".join(
            f"CAST({chr(34) + c.name + chr(34) if c.name in have else 'NULL'} AS "
            f'{kinds.get(str(c.type), "VARCHAR")}) AS "{c.name}"'
            for c in HISTORY
        )
        path = folder / "history" / f"{name}.parquet"
        db.execute(f"COPY (SELECT {made} FROM {name}) TO '{path}' (COMPRESSION zstd)")
    query = _REPLICAS
    for known, number in numbers.items():
        query = query.replace(f"${known}", str(number))
    db.execute(f"COPY ({query}) TO '{folder / 'replicas.parquet'}' (COMPRESSION zstd)")


def _write_tables(folder: Path, run: _Run) -> None:
    size = run.size
    cluster = []
    ends = [
        {"node": node, "topic": METADATA_TOPIC, "partition": 0, "start_offset": 0, "end_offset": 0,
         "high_watermark": 0} for node in NODES
    ]  # fmt: skip
    third = size.sends * STEP_NS // 3
    for partition in range(size.partitions):
        leader = 1 + partition % 3
        others = [node for node in NODES if node != leader]
        common = {"topic": TOPIC, "partition": partition, "leader_epoch": 0, "leader": leader}
        for number, isr in enumerate(([leader, *others], [leader, others[0]], [leader, *others])):
            cluster.append(common | {"kind": "leader", "at_ns": number * third, "isr": isr,
                                     "partition_epoch": number, "source": "story"})  # fmt: skip
        begins = int(partition < size.each)  # at 0 in truth
        cluster.append(common | {"kind": "epoch", "at_ns": size.end_ns, "start_offset": begins})
        for node in NODES:
            end = run.ends.get(partition, size.per_partition)
            ends.append({"node": node, "topic": TOPIC, "partition": partition, "start_offset": 0,
                         "end_offset": end, "high_watermark": end})  # fmt: skip
    _write(folder / "cluster.parquet", CLUSTER, cluster)
    _write(folder / "replica_ends.parquet", REPLICA_ENDS, ends)
    fault = {"fault_id": 0, "fault": "pause", "label": "pause", "started_ns": third,
             "targets": json.dumps({"nodes": [3]}), "effective_ns": third,
             "healed_ns": 2 * third, "effect": "stopped", "took_effect": True}  # fmt: skip
    _write(folder / "faults.parquet", FAULTS, [fault])


def _write(path: Path, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    pa.parquet.write_table(table(schema, rows), path, compression="zstd")


def _plan(size: Size) -> dict[str, Any]:
    topic = {
        "name": TOPIC, "acks": "all", "partitions": size.partitions, "replication_factor": 3,
        "min_insync_replicas": 2, "idempotence": True,
    }  # fmt: skip
    return {
        "name": "scale",
        "system": "nodes",
        "topics": [topic],
        "workload": {"producers": CLIENTS, "consumers": 4, "message_timeout_ms": 5000},
        "nemesis": {"faults": ["pause"]},
        "expect": [],
    }
