"""Histories of transactions of any size, with known anomalies in them.

Every transaction sends two records, to two partitions; producers take turns, and every log has the
order of the transactions. Four consumers poll their partitions after every 200 transactions; half
of the polls are part of a transaction that sends, too. All polls see a prefix of the transactions,
so the dependencies of a history without planted anomalies have no cycle. Planted transactions write
to partitions of their own.

    write_run             a run directory, and what was planted in it
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from checkers.history.history import HISTORY, table

TOPIC = "orders"
STEP_NS = 10_000
"""From one transaction to the next."""
LATENCY_NS = 1_000_000
PRODUCERS, COPIERS, CONSUMERS, READER, GUEST, RIVAL = 8, 21, 101, 201, 301, 401
"""Numbers of clients, or from where on; there are eight producers, and four copiers and
consumers."""
BATCH = 50
"""Transactions between two polls (of different consumers)."""
POLLERS = 4
OWN_PARTITIONS = 6
"""Partitions of planted transactions."""
TXNS, POLLS, READS, BESIDE = 1 << 37, 1 << 38, 3 << 37, 1 << 39
"""From where on transactions and operations are numbered; sends from 1 on."""
COMMITTED, ABORTED = "ok", "fail"

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

KINDS = (
    "G0", "G1c", "G1c of reads alone", "G-single", "G2-item", "G1b", "precommitted-read",
    "aborted-read", "false-abort", "torn-transaction", "zombie-write",
)  # fmt: skip
"""What is planted, see `_Plan.plant`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """each: how many anomalies of every kind."""

    transactions: int
    partitions: int = 64
    each: int = 10

    @property
    def least(self) -> int:
        """So many transactions that every planted anomaly has its own place."""
        return 2 * BATCH * (len(KINDS) * self.each + 1)


@dataclass(slots=True)
class _Sends:
    """The sends, two of each transaction; an array has an element for each."""

    txn: Ints
    partition: Ints
    key: Ints
    """The order in the log."""
    client: Ints
    aborted: Flags
    kept: Flags
    """Whether the log has the record."""
    offset: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """-1: the log does not have the record."""

    @property
    def op(self) -> Ints:
        return np.arange(1, len(self.txn) + 1)

    @property
    def value(self) -> Ints:
        return self.client << 32 | self.op

    def settle(self) -> None:
        """Give every kept record its offset."""
        self.offset = np.full(len(self.txn), -1)
        order = np.lexsort((self.key, self.partition))
        order = order[self.kept[order]]
        begins = np.searchsorted(self.partition[order], np.arange(self.partition.max() + 1))
        self.offset[order] = np.arange(len(order)) - begins[self.partition[order]]


@dataclass(slots=True)
class _Plan:
    """What was planted. reads: (send, transaction, operation) of polls beside the regular ones."""

    size: Size
    sends: _Sends
    planted: Counter[str] = field(default_factory=Counter)
    reads: list[tuple[int, int | None, int]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)
    """Transactional ids of clients, other than `id-CLIENT`."""
    last: dict[int, int] = field(default_factory=dict)
    """The last send that was planted in each partition."""
    ops: int = BESIDE

    def put(self, partition: int, *sends: int) -> None:
        """Move sends into a partition."""
        self.sends.partition[[*sends]] = partition

    def poll(self, *sends: int, txn: int | None = None) -> None:
        """One more poll, which returns these records."""
        self.ops += 1
        self.reads += [(send, txn, self.ops) for send in sends]

    def plant(self, kind: str, first: int, p: int, q: int) -> None:
        """Plant an anomaly into two transactions, the numbers `first` and `first` + 1, in the
        partitions p and q."""
        one, two, other_one, other_two = range(2 * first, 2 * first + 4)
        counts = {kind: 1}
        self.put(p, one)
        self.put(q, two)
        match kind:
            case "G0":  # two transactions write to two partitions in opposite orders
                self.put(p, other_one)
                self._overtake(two, other_two, q)
            case "G1c":  # the second reads what the first wrote, and wrote before it
                self._overtake(two, other_two, q)
                self.poll(one, txn=first + 1)
            case "G1c of reads alone":
                self.put(0, two)
                self.put(1, other_one)
                self.put(q, other_two)
                self.poll(other_two, txn=first)
                self.poll(one, txn=first + 1)
            case "G-single":  # a poll sees the first transaction in one of its two partitions
                self.poll(self.last[p], two)
            case "G2-item":  # two polls see two transactions in opposite orders
                self.put(0, two)
                self.put(1, other_one)
                self.put(q, other_two)
                self.poll(one, self.last[q])
                self.poll(self.last[p], other_two)
            case "G1b":
                self.put(p, two)
                self.poll(one)
            case "precommitted-read":
                self.poll(one, txn=first)
            case "aborted-read":
                self.sends.aborted[[one, two]] = True
                self.sends.kept[two] = False
                counts = {kind: 1, "G1a": 1}
            case "false-abort":
                self.sends.aborted[[one, two]] = True
                counts = {kind: 1, "aborted-read": 2, "G1a": 2}
            case "torn-transaction":
                self.sends.kept[two] = False
            case "zombie-write":
                self._fence(first)
                counts = {kind: 2}
        self._remember(p, q, range(one, other_two + 1))
        self.planted.update(counts)

    def _overtake(self, send: int, other: int, partition: int) -> None:
        """The second send comes before the first one in a partition."""
        self.put(partition, send, other)
        self.sends.key[send] = self.sends.key[other] + 1

    def _fence(self, txn: int) -> None:
        """The client of a transaction was fenced before it sent."""
        zombie, rival = RIVAL + 2 * len(self.ids), RIVAL + 2 * len(self.ids) + 1
        self.ids[zombie], self.ids[rival] = f"zombie-{zombie}", f"zombie-{zombie}"
        self.sends.client[[2 * txn, 2 * txn + 1]] = zombie
        self.init(rival, txn * STEP_NS - LATENCY_NS)

    def init(self, client: int, at_ns: int) -> None:
        """A producer starts."""
        self.row("init-producer", client, at_ns, transactional_id=self.id_of(client))

    def id_of(self, client: int) -> str:
        """The transactional id of a client."""
        return self.ids.get(client, f"id-{client}")

    def row(self, f: str, client: int, at_ns: int, **columns: Any) -> None:
        """A row beside the regular ones."""
        self.ops += 1
        made = {"op": self.ops, "client": client, "f": f, "type": "ok"}
        times = {"invoke_ns": at_ns, "complete_ns": at_ns + LATENCY_NS // 2}
        self.rows.append(made | times | columns)

    def _remember(self, p: int, q: int, sends: Sequence[int]) -> None:
        for send in sorted(sends, key=lambda each: int(self.sends.key[each])):
            if self.sends.kept[send] and self.sends.partition[send] in (p, q):
                self.last[int(self.sends.partition[send])] = send


def write_run(folder: Path, size: Size, *, seed: int = 0) -> Mapping[str, int]:
    """Write a run directory into the new `folder`; {kind: how many were planted}. size:
    transactions must not be less than `Size.least`."""
    plan = _Plan(size, _regular(size, np.random.default_rng(seed)))
    sends = plan.sends
    planted = len(KINDS) * size.each
    for number in range(planted):
        batch = size.transactions // BATCH * (number + 1) // (planted + 2)
        p = size.partitions + 2 * (number % (OWN_PARTITIONS // 2))
        # In the middle of a batch: every poll sees both transactions or none.
        plan.plant(KINDS[number % len(KINDS)], batch * BATCH + BATCH // 2, p, p + 1)
    sends.settle()
    (folder / "history").mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(_plan_file(size)))
    phases = {"finished": ["settle", "final reads", "collect"], "epoch_problems": []}
    (folder / "run.json").write_text(json.dumps(phases))
    for name, made in (
        ("sends", _send_rows(plan)),
        ("ends", _end_rows(plan)),
        ("polls", _poll_rows(plan)),
        ("final", _final_rows(plan)),
        ("rest", _other_rows(plan)),
    ):
        pa.parquet.write_table(made, folder / "history" / f"{name}.parquet", compression="zstd")
    return plan.planted


def _regular(size: Size, random: np.random.Generator) -> _Sends:
    count = size.transactions
    one = random.integers(0, size.partitions, count)
    other = (one + random.integers(1, size.partitions, count)) % size.partitions
    txn = np.repeat(np.arange(count), 2)
    client = 1 + txn % PRODUCERS
    copies = _copying(txn)
    client[copies] = COPIERS + (txn[copies] // BATCH) % POLLERS
    return _Sends(
        txn=txn,
        partition=np.column_stack((one, other)).ravel(),
        key=8 * txn + np.tile([0, 1], count),
        client=client,
        aborted=np.zeros(2 * count, np.bool_),
        kept=np.ones(2 * count, np.bool_),
    )


def _copying(txn: Ints) -> Flags:
    """Whether a transaction polls: the last one of every second batch."""
    found: Flags = txn % (2 * BATCH) == BATCH - 1
    return found


def _send_rows(plan: _Plan) -> pa.Table:
    sends = plan.sends
    invoked = _begun_ns(sends.txn)
    return _table(
        len(sends.txn),
        op=sends.op,
        client=sends.client,
        f="send",
        type=_outcomes(sends.aborted),
        invoke_ns=invoked,
        complete_ns=invoked + LATENCY_NS,
        topic=TOPIC,
        partition=sends.partition,
        value=sends.value,
        offset=pa.array(sends.offset, mask=sends.aborted | ~sends.kept),
        acks=-1,
        txn=TXNS + sends.txn,
        transactional_id=_ids(plan, sends.client),
    )


def _begun_ns(txn: Ints) -> Ints:
    """When the sends of a transaction begin; one that polls does so first."""
    return txn * STEP_NS + np.where(_copying(txn), 3 * LATENCY_NS, 0)


def _outcomes(aborted: Flags) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(aborted.astype(np.int8)), [COMMITTED, ABORTED]
    ).cast(pa.string())


def _ids(plan: _Plan, clients: Ints) -> pa.Array:
    known, codes = np.unique(clients, return_inverse=True)
    names = [plan.id_of(int(client)) for client in known]
    return pa.DictionaryArray.from_arrays(pa.array(codes), names).cast(pa.string())


def _end_rows(plan: _Plan) -> pa.Table:
    """A row for each end of a transaction."""
    sends, count = plan.sends, plan.size.transactions
    aborted, client = sends.aborted[::2], sends.client[::2]
    ended = _begun_ns(sends.txn[::2]) + LATENCY_NS // 2
    how = pa.DictionaryArray.from_arrays(
        pa.array(aborted.astype(np.int8)), ["commit-transaction", "abort-transaction"]
    )
    return _table(
        count,
        op=3 * BESIDE + np.arange(count),
        client=client,
        f=how.cast(pa.string()),
        type="ok",
        invoke_ns=ended,
        complete_ns=ended + LATENCY_NS // 2,
        txn=TXNS + np.arange(count),
        transactional_id=_ids(plan, client),
    )


def _poll_rows(plan: _Plan) -> pa.Table:
    sends = plan.sends
    there = np.flatnonzero(sends.kept)
    owner = sends.partition[there] % POLLERS
    batch = (sends.txn[there] + 1) // BATCH
    poll = batch + (owner - batch) % POLLERS
    there, poll, owner = (each[np.lexsort((there, poll))] for each in (there, poll, owner))
    last = (poll + 1) * BATCH - 1
    inside = _copying(last) & (last < plan.size.transactions)
    extra = np.array([send for send, _, _ in plan.reads], np.int64)
    extra_txn = np.array([-1 if txn is None else txn for _, txn, _ in plan.reads], np.int64)
    extra_op = np.array([op for _, _, op in plan.reads], np.int64)
    read, txn = (
        np.concatenate((there, extra)),
        np.concatenate((np.where(inside, last, -1), extra_txn)),
    )
    invoked = np.concatenate(
        (last * STEP_NS + 2 * LATENCY_NS, sends.txn[extra] * STEP_NS + 2 * LATENCY_NS)
    )
    return _table(
        len(read),
        op=np.concatenate((POLLS + poll, extra_op)),
        client=np.concatenate((CONSUMERS + owner, np.full(len(extra), GUEST))),
        f="poll",
        type="ok",
        invoke_ns=invoked,
        complete_ns=invoked + LATENCY_NS // 2,
        topic=TOPIC,
        partition=sends.partition[read],
        value=sends.value[read],
        offset=sends.offset[read],
        txn=pa.array(TXNS + txn, mask=txn < 0),
        isolation=1,
    )  # fmt: skip


def _final_rows(plan: _Plan) -> pa.Table:
    sends = plan.sends
    order = np.lexsort((sends.offset, sends.partition))
    order = order[sends.kept[order]]
    end_ns = _over_ns(plan.size)
    return _table(
        len(order),
        op=READS + sends.partition[order] * (1 << 24) + sends.offset[order] // 100,
        client=READER,
        f="final-read",
        type="ok",
        invoke_ns=end_ns,
        complete_ns=end_ns + LATENCY_NS,
        topic=TOPIC,
        partition=sends.partition[order],
        value=sends.value[order],
        offset=sends.offset[order],
        isolation=1,
    )


def _other_rows(plan: _Plan) -> pa.Table:
    sends, end_ns = plan.sends, _over_ns(plan.size)
    clients = sorted({*map(int, np.unique(sends.client)), *plan.ids})
    for client in clients:
        if client not in plan.ids or client % 2 == RIVAL % 2:
            plan.init(client, -2 * LATENCY_NS + 0)
    ends = np.bincount(sends.partition[sends.kept], minlength=plan.size.partitions + OWN_PARTITIONS)
    readers = [*range(CONSUMERS, CONSUMERS + POLLERS), READER, GUEST]
    for client in (*clients, *readers):
        plan.row("start", client, 0)
        plan.row("end", client, 2 * end_ns)
    for partition, end in enumerate(ends.tolist()):
        where = {"topic": TOPIC, "partition": partition}
        plan.row("assign", CONSUMERS + partition % POLLERS, 0, offset=0, **where)
        plan.row("final-read-end", READER, 2 * end_ns, offset=end, **where)
    return table(HISTORY, plan.rows)


def _over_ns(size: Size) -> int:
    return size.transactions * STEP_NS + 20 * LATENCY_NS


def _table(rows: int, **columns: Any) -> pa.Table:
    """The columns as arrays, or one text or number for all rows; the others are null."""
    made = []
    for column in HISTORY:
        given = columns.get(column.name)
        if given is None:
            made.append(pa.nulls(rows, column.type))
        elif isinstance(given, str | int):
            made.append(pa.repeat(pa.scalar(given, column.type), rows))
        else:
            array = given if isinstance(given, pa.Array) else pa.array(given)
            made.append(array.cast(column.type))
    return pa.table(made, schema=HISTORY)


def _plan_file(size: Size) -> dict[str, Any]:
    topic = {
        "name": TOPIC, "acks": "all", "partitions": size.partitions + OWN_PARTITIONS,
        "replication_factor": 3, "min_insync_replicas": 2, "idempotence": True,
    }  # fmt: skip
    return {
        "name": "transactions",
        "system": "nodes",
        "topics": [topic],
        "workload": {"producers": PRODUCERS, "consumers": POLLERS, "message_timeout_ms": 5000},
        "nemesis": {"faults": []},
        "expect": [],
    }
