"""Ways to tamper with the tables of a run: columns, rows, and whole kinds of rows."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from checkers.history.history import CLUSTER, FAULTS, HISTORY, REPLICA_ENDS, REPLICAS

Bend = Callable[[pa.Table], pa.Table]
TABLES: Final[Mapping[str, pa.Schema]] = {
    "history": HISTORY,
    "cluster": CLUSTER,
    "faults": FAULTS,
    "replicas": REPLICAS,
    "replica_ends": REPLICA_ENDS,
}
KINDS: Final = {
    "history": ("f", ("send", "poll", "watermark")),
    "cluster": ("kind", ("leader", "epoch")),
}
"""The column that tells a table's kinds of rows apart, and kinds."""

GREATEST: Final = {pa.int64(): 2**63 - 1, pa.int32(): 2**31 - 1, pa.int8(): 127}


def _edit(name: str, bend: Bend) -> Callable[[Path], None]:
    """Rewrites the files of a table, with the marks of their ends."""

    def change(run: Path) -> None:
        pattern = "history/*.parquet" if name == "history" else f"{name}.parquet"
        for path in sorted(run.glob(pattern)):
            old = pyarrow.parquet.read_table(path)
            new = bend(old)
            if new is not old:
                pyarrow.parquet.write_table(new.replace_schema_metadata(old.schema.metadata), path)

    return change


def _mask(table: pa.Table, **equal: Any) -> pa.ChunkedArray:
    mask = pa.chunked_array([pa.array([True] * table.num_rows, pa.bool_())])
    for name, value in equal.items():
        mask = pc.and_(mask, pc.fill_null(pc.equal(table[name], pa.scalar(value)), False))
    return mask


def _without(**equal: Any) -> Bend:
    """Drops all rows that have these values."""

    def bend(table: pa.Table) -> pa.Table:
        mask = _mask(table, **equal)
        return table.filter(pc.invert(mask)) if pc.any(mask).as_py() else table

    return bend


def _middle(table: pa.Table, **equal: Any) -> int | None:
    """The row in the middle of those that have these values."""
    found = pc.indices_nonzero(_mask(table, **equal)).to_pylist()
    return found[len(found) // 2] if found else None


def _without_one(**equal: Any) -> Bend:
    def bend(table: pa.Table) -> pa.Table:
        at = _middle(table, **equal)
        if at is None:
            return table
        return pa.concat_tables([table.slice(0, at), table.slice(at + 1)])

    return bend


def _with_one_twice(**equal: Any) -> Bend:
    def bend(table: pa.Table) -> pa.Table:
        at = _middle(table, **equal)
        return table if at is None else pa.concat_tables([table, table.slice(at, 1)])

    return bend


def _with_one(column: str, value: Callable[[Any], Any], **equal: Any) -> Bend:
    """Sets a column of one row."""

    def bend(table: pa.Table) -> pa.Table:
        at = _middle(table, **equal)
        if at is None:
            return table
        rows = table.to_pylist()
        rows[at][column] = value(rows[at][column])
        return pa.Table.from_pylist(rows, table.schema)

    return bend


def _with_all(column: str, value: Callable[[Any], Any], **equal: Any) -> Bend:
    """Sets a column of all rows that have these values."""

    def bend(table: pa.Table) -> pa.Table:
        rows, chosen = table.to_pylist(), _mask(table, **equal).to_pylist()
        if not any(chosen):
            return table
        for row, is_chosen in zip(rows, chosen, strict=True):
            if is_chosen:
                row[column] = value(row[column])
        return pa.Table.from_pylist(rows, table.schema)

    return bend


def _drop(column: str) -> Bend:
    return lambda table: table.drop_columns([column])


def _as_text(column: str) -> Bend:
    def bend(table: pa.Table) -> pa.Table:
        kind = pa.string() if table.schema.field(column).type != pa.string() else pa.int64()
        at = table.schema.get_field_index(column)
        return table.set_column(at, column, pa.nulls(table.num_rows, kind))

    return bend


Named = tuple[str, Bend]

UNUSED: Final = ("generation", "transactional_id", "copies", "isolation", "key")
"""Columns of the history that these runs leave empty."""


ALWAYS_NULL: Final = ("damaged",)
"""Columns that say nothing of these runs: no fault of theirs changes a file."""


def _columns(name: str, schema: pa.Schema) -> Iterator[Named]:
    for field in schema:
        column = field.name
        if column in ALWAYS_NULL:
            continue
        yield f"{column} dropped", _drop(column)
        yield f"{column} of another type", _as_text(column)
        if field.nullable:
            yield f"{column} null everywhere", _with_all(column, lambda _: None)
        if field.type in GREATEST and column not in UNUSED:
            most = GREATEST[field.type]
            told_by, kinds = KINDS.get(name, ("", (None,)))
            for kind in kinds:
                where = {} if kind is None else {told_by: kind}
                told = f" of a {kind}" if kind else ""
                yield (
                    f"{column}{told} the greatest",
                    _with_one(column, lambda _, m=most: m, **where),
                )
                yield (
                    f"{column}{told} the least",
                    _with_one(column, lambda _, m=most: -m - 1, **where),
                )


def _history() -> Iterator[Named]:
    kinds = ("start", "send", "poll", "assign", "watermark", "final-read", "final-read-end", "end")
    for f in kinds:
        yield f"no {f}", _without(f=f)
        yield f"a {f} less", _without_one(f=f)
        yield f"a {f} twice", _with_one_twice(f=f)
        yield f"{f} of another kind", _with_all("f", lambda _: "other", f=f)
        yield f"every {f} failed", _with_all("type", lambda _: "fail", f=f)
        yield f"every {f} ended as nobody ends", _with_all("type", lambda _: "maybe", f=f)
    for f in ("send", "poll", "assign", "watermark", "final-read", "final-read-end"):
        yield f"no {f} of a topic", _without(f=f, topic="acks-all")
        yield f"no {f} of a partition", _without(f=f, topic="acks-all", partition=0)
        yield f"a {f} of a topic that nobody planned", _with_one("topic", lambda _: "other", f=f)
        yield f"a {f} of no topic", _with_one("topic", lambda _: None, f=f)
        yield f"a {f} of another partition", _with_one("partition", lambda p: p + 7, f=f)
    for f in ("send", "poll", "final-read"):
        yield f"a {f} of another value", _with_one("value", lambda v: v + (1 << 31), f=f)
        yield f"a {f} at another offset", _with_one("offset", lambda o: (o or 0) + 1, f=f)
        yield f"a {f} before the run", _with_one("invoke_ns", lambda _: -5, f=f)
        yield f"a {f} that ends first", _with_one("complete_ns", lambda _: 0, f=f)
        yield f"a {f} long after the run", _with_one("complete_ns", lambda _: 1 << 60, f=f)
        yield f"every {f} never completed", _with_all("complete_ns", lambda _: None, f=f)
    yield "every send with other acks", _with_all("acks", lambda a: 1 if a == -1 else -1, f="send")
    yield "a send with other acks", _with_one("acks", lambda a: 1 if a == -1 else -1, f="send")
    yield "every operation of one number", _with_all("op", lambda _: 5 << 40)
    yield "the sends of one number", _with_all("op", lambda _: 5 << 40, f="send")
    yield "the polls of one number", _with_all("op", lambda _: 5 << 40, f="poll")
    yield "all of one client", _with_all("client", lambda _: 3)
    yield "no rows at all", lambda table: table.slice(0, 0)


def _cluster() -> Iterator[Named]:
    yield "no rows at all", lambda table: table.slice(0, 0)
    yield "no leader", _without(kind="leader")
    yield "no leader of a topic", _without(kind="leader", topic="acks-all")
    yield "no leader of a partition", _without(kind="leader", topic="acks-all", partition=0)
    yield "nobody leads", _with_all("leader", lambda _: -1, kind="leader")
    yield "nobody in sync", _with_all("isr", lambda _: [], kind="leader")
    yield "all of another topic", _with_all("topic", lambda _: "other", kind="leader")
    yield "an epoch begins one later", _with_one("start_offset", lambda at: at + 1, kind="epoch")
    yield "an epoch begins one earlier", _with_one("start_offset", lambda at: at - 1, kind="epoch")
    yield "an epoch less", _without_one(kind="epoch")
    yield "an answer with other in-sync replicas", _with_one("isr", lambda _: [7], kind="view")
    yield "other replicas", _with_all("replicas", lambda _: [7, 8, 9], kind="leader")


def _faults() -> Iterator[Named]:
    yield "none", lambda table: table.slice(0, 0)
    yield "none took effect", _with_all("took_effect", lambda _: False)
    yield "one did not take effect", _with_one("took_effect", lambda _: False)


def _replicas() -> Iterator[Named]:
    place = {"topic": "acks-all", "partition": 0}
    yield "none", lambda table: table.slice(0, 0)
    yield "none of a node", _without(node=2)
    yield "none of a topic", _without(topic="acks-all")
    yield "none of a partition", _without(**place)
    yield "none of a partition of a node", _without(node=2, **place)
    yield "one less", _without_one(node=2, **place)
    yield "one twice", _with_one_twice(node=2, **place)
    yield "other bytes in one", _with_one("digest", lambda _: "other", node=2, **place)
    yield "other nodes", _with_all("node", lambda node: node + 10)


def _ends() -> Iterator[Named]:
    place = {"topic": "acks-all", "partition": 0}
    for name, where in {
        "of a node": {"node": 2},
        "of a topic": {"topic": "acks-all"},
        "of a partition": place,
        "of a partition of a node": {"node": 2, **place},
        "of the metadata log": {"topic": "__cluster_metadata"},
        "of the metadata log of a node": {"topic": "__cluster_metadata", "node": 2},
    }.items():
        yield f"none {where and name}", _without(**where)
    yield "none", lambda table: table.slice(0, 0)
    yield "one earlier", _with_one("end_offset", lambda end: end - 1, node=2, **place)
    yield "one later", _with_one("end_offset", lambda end: end + 1, node=2, **place)
    yield "all later", _with_all("end_offset", lambda end: end + 1)
    yield "all from 0 to 0", _with_all("end_offset", lambda _: 0)
    yield "one starts later", _with_one("start_offset", lambda at: at + 5, node=2, **place)
    yield "one twice", _with_one_twice(node=2, **place)
    yield "other nodes", _with_all("node", lambda node: node + 10)


OWN: Final[Mapping[str, Callable[[], Iterator[Named]]]] = {
    "history": _history,
    "cluster": _cluster,
    "faults": _faults,
    "replicas": _replicas,
    "replica_ends": _ends,
}

HARMLESS: Final[Mapping[str, tuple[str, ...]]] = {
    "the row says what another row says, too": ("* twice",),
    "no detector of this run's anomalies needs it": (
        "history: value of a watermark *",
        "history: acks of a poll *",
        "history: acks of a watermark *",
        "history: txn *",
        "history: group null everywhere",
    ),
    "it is of transactions, groups and compacted topics, which these runs do not have": (
        *(f"history: {name} dropped" for name in UNUSED),
        *(f"history: {name} null everywhere" for name in UNUSED),
    ),
    "who led is told by the cluster's rows": (
        "history: leader_epoch *",
        "history: node of a send *",
        "history: node of a poll *",
        "history: node null everywhere",
    ),
    "no record of this run was damaged or foreign": ("history: error null everywhere",),
    "a partition may have no leader for a while": ("cluster: leader of a leader the least",),
    "an answer may leave partitions out": ("history: a watermark less",),
    "it is of other kinds of rows": (
        "cluster: node *",
        "cluster: start_offset of a leader *",
        "cluster: end_offset *",
        "cluster: leader of a epoch *",
        "cluster: partition_epoch of a epoch *",
        "cluster: log_offset *",
        "cluster: at_ns of a epoch *",
    ),
    "it tells the reader where it is known from": ("cluster: source null everywhere",),
    "stored runs may lack it; what it would excuse is then forbidden": (
        "cluster: elr *",
        "cluster: replicas *",
        "cluster: ahead_ms *",
    ),
    "it only puts what one leader epoch holds in order": ("cluster: partition_epoch *",),
    "it tells the reader what was done; without it nothing is excused": (
        "faults: fault_id *",
        "faults: label *",
        "faults: targets *",
        "faults: planned_ms *",
        "faults: effect null everywhere",
        "faults: healing *",
        "faults: inject_ms *",
        "faults: heal_ms *",
        "faults: error null everywhere",
    ),
    "the verdict says that nothing was healed": ("faults: healed_ns null everywhere",),
    "the digest of a batch is of these bytes, too": (
        "replicas: leader_epoch *",
        "replicas: size *",
    ),
    "a log may begin later than those of others": ("replica_ends: one starts later",),
}
"""Why a run that was VALID may stay so, and after what."""


def _harmless(name: str) -> str:
    found = (
        reason
        for reason, patterns in HARMLESS.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    )
    return next(found, "")


def table_changes() -> Iterator[tuple[str, Callable[[Path], None], str]]:
    """name, change, why it is harmless."""
    for table, schema in TABLES.items():
        for what, bend in (*_columns(table, schema), *OWN[table]()):
            name = f"{table}: {what}"
            yield name, _edit(table, bend), _harmless(name)
