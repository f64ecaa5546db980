"""The tables of a run: their schemas, and how a run directory becomes validated sources.

The history is the only link between running and judging. This module defines every column of the
history and of the tables beside it, finds a run's files, and refuses files that do not fit, with an
error that names the file and the column. A file may lack columns that were added to its table
later. It reads no rows; the engine reads them from the files, with all columns of the schema.

It leaves writing to the harness, and reading and judging to the engine and the detectors.

Times are ns on CLOCK_MONOTONIC since the start of the run.

    HistoryError          the run cannot be judged: it is not a run, or its files do not fit
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from checkers.history import arrow
from checkers.history.plan_file import wrong_with
from checkers.history.run_file import NOTHING_SAID, RunFile, read_run_file
from checkers.history.segments import (
    SEALED,
    STREAM,
    followed_by_another,
    irregular,
    irregular_told,
    lacking,
    segment_missing,
    segment_torn,
    table_files,
)


class HistoryError(Exception):
    """A run directory or frame that cannot be judged; the message names file and column."""


LATER = {"later": "yes"}
"""Marks a column that was added to the table later. Stored runs may lack it; the engine reads null.
"""

CUT = {b"cut": b"yes"}
"""Marks a sealed file whose stream did not end in order: later rows are lost."""

FOLLOWED = {b"followed": b"yes"}
"""Marks a sealed segment after which its writer began another one."""

OP_BITS = 40
"""The number of an operation is its writer's number, shifted by this number of bits, plus a
counter."""

TP = ["topic", "partition"]
"""The columns that name a partition."""

# One row per operation and record, written when the operation completes. An operation that
# carries several records (a poll, an assignment) is several rows with one `op`.
HISTORY = pa.schema(
    [
        pa.field("op", pa.int64(), nullable=False),  # writer_id << 40 | counter: unique in the run
        pa.field("client", pa.int32(), nullable=False),  # a restarted client is a new number
        # start, send, poll, assign, watermark, producer-epoch, final-read, final-read-end, end; of
        # transactions: init-producer, commit-transaction, abort-transaction; of groups: assigned,
        # revoked, lost, offset-commit, final-committed; of tested programs: app-start, app-exit,
        # app-output, app-reread, app-end; of compacted topics: keyed-write, keyed-delete,
        # keyed-read, keyed-poll, keyed-pass
        pa.field("f", pa.string(), nullable=False),
        # ok; fail: it surely did not happen; info: it may have
        pa.field("type", pa.string(), nullable=False),
        pa.field("invoke_ns", pa.int64(), nullable=False),
        pa.field("complete_ns", pa.int64()),  # null: never completed
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("value", pa.int64()),  # client << 32 | sequence; null: corrupt or foreign record
        pa.field("offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("acks", pa.int8()),  # 0, 1, -1
        pa.field("node", pa.int32()),  # the broker that answered
        pa.field("txn", pa.int64()),
        pa.field("group", pa.string()),
        pa.field("error", pa.string()),  # error code name; "checksum", "foreign" for records
        # the generation of the group, or the epoch of the member
        pa.field("generation", pa.int32(), metadata=LATER),
        pa.field("transactional_id", pa.string(), metadata=LATER),
        # of a send: the value of the record that it was made from (`group`: the group that read it)
        pa.field("copies", pa.int64(), metadata=LATER),
        # of a poll or a final read: 0 read_uncommitted, 1 read_committed; null: not recorded
        pa.field("isolation", pa.int8(), metadata=LATER),
        # the number of the key in its partition, in rows of compacted topics
        pa.field("key", pa.int64(), metadata=LATER),
    ]
)

# Rows of transactions. A send in a transaction is written when the transaction has ended, and has
# the outcome of the transaction: ok: the commit was acknowledged; fail: the transaction is surely
# not committed; info: not known. complete_ns: the end of the transaction.
# commit-transaction, abort-transaction: the request that ended the transaction `txn`.
# init-producer: from complete_ns on, every older producer of the transactional id is fenced.
#
# Rows of groups; client: the member. assigned, revoked, lost: a rebalance callback, a row for each
# partition (offset: the position from which an assigned member goes on), or one row without a
# partition. offset-commit: a row for each partition (offset: the committed position; with txn: the
# commit was sent in this transaction and has its outcome). final-committed: after the run, the
# offset that the coordinator of the group has.

# Rows of a tested program; client: the supervisor, or the instance. app-start, app-exit: the
# generation is the number of the start, the error is how it ended. app-output: an element of the
# output, when it was first seen (partition, offset: its place; value: of the input that it names;
# error: why it names none). app-reread: earlier rows app-output do not count. app-end: the output
# was read (type ok: to its end); from the last input on the program had its time.

# Rows of compacted topics. keyed-write, keyed-delete: the send of a record, or of a tombstone, with
# the outcome of a send (value: unique, also of a tombstone). keyed-read: a record of the final log
# (without value and error: a tombstone). keyed-poll: the same of a pass, which reads a partition
# while the run goes on; the operation is the pass. keyed-pass: the pass, from before its reader
# asked where the log ends (type ok: it was read from its beginning to that end, or farther; offset:
# the position in the end).

# A row of `f` producer-epoch: an idempotent producer left its epoch. librdkafka does so in all
# partitions at once, our own client in the partition of the row.
# invoke_ns: from then on it sent nothing under the old epoch; complete_ns: when it could send under
# the new epoch (null: not seen). error: the reason; partition: the partition whose batch was
# refused, if that is the reason; value: the first value that the refusing broker lacked. Each
# reason is a row; the reasons of one epoch bump have the same `op`.
PRODUCER_EPOCH = "producer-epoch"
SKIPPED_AHEAD = "skipped-ahead"
"""How the error begins when the client had sent more behind a batch that failed."""
TIMED_OUT = "timed-out"
"""How the error begins when the client had given up writes, whose sequences were then missing."""
REFUSED_HEAD = "refused at the head of the line"
"""How the error begins when a batch was refused as out of order although it was the next one."""

# The cluster's reports. kind: leader (a partition's leader or ISR changed), epoch (a row of the
# final leader-epoch table), view (a node's own view of a partition's leader, polled), truncation (a
# replica truncated its log to end_offset), fenced, unfenced (a broker, from the metadata log),
# quorum (the leader of the metadata log in an epoch, as a node reported it; isr: the voters; beside
# ZooKeeper the active controller and its epoch, without voters), clock
# (a node's wall clock was set: from then on it should be ahead_ms ahead of the true time). elr: the
# eligible leader replicas; log_offset: of the batch in the metadata log; replicas: the assigned
# replicas of the partition.
CLUSTER = pa.schema(
    [
        pa.field("at_ns", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("node", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("partition_epoch", pa.int32()),
        pa.field("isr", pa.list_(pa.int32())),
        pa.field("start_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("source", pa.string()),
        pa.field("elr", pa.list_(pa.int32()), metadata=LATER),
        pa.field("log_offset", pa.int64(), metadata=LATER),
        pa.field("replicas", pa.list_(pa.int32()), metadata=LATER),
        pa.field("ahead_ms", pa.float64(), metadata=LATER),
    ]
)

# The injected faults. targets: JSON of the resolved targets; effect, healing: the measured proofs;
# damaged: JSON of the files that the fault changed, by node. inject_ms, heal_ms: how long injecting
# and healing took.
FAULTS = pa.schema(
    [
        pa.field("fault_id", pa.int32(), nullable=False),
        pa.field("fault", pa.string(), nullable=False),  # kill, pause, partition.isolate-leader, …
        pa.field("label", pa.string()),
        pa.field("targets", pa.string()),
        pa.field("planned_ms", pa.int64()),
        pa.field("started_ns", pa.int64()),
        pa.field("effective_ns", pa.int64()),
        pa.field("healed_ns", pa.int64()),
        pa.field("effect", pa.string()),
        pa.field("damaged", pa.string(), metadata=LATER),
        pa.field("healing", pa.string(), metadata=LATER),
        pa.field("inject_ms", pa.float64(), metadata=LATER),
        pa.field("heal_ms", pa.float64(), metadata=LATER),
        pa.field("took_effect", pa.bool_(), nullable=False),
        pa.field("error", pa.string()),
    ]
)

KEYED_WRITE, KEYED_DELETE, KEYED_READ = "keyed-write", "keyed-delete", "keyed-read"
KEYED_POLL, KEYED_PASS = "keyed-poll", "keyed-pass"
"""The `f` of rows of compacted topics."""
SENDS = ("send", KEYED_WRITE, KEYED_DELETE)
"""The `f` of rows of sends."""
FREQUENT = (*SENDS, KEYED_READ, KEYED_POLL, "poll", "final-read", "app-output")
"""The `f` of rows that a history may have millions of, beside the ends of transactions."""

COMMIT, ABORT, INIT = "commit-transaction", "abort-transaction", "init-producer"
"""The `f` of rows of transactions."""
ENDS = (COMMIT, ABORT)
"""The `f` of rows of requests that ended a transaction."""

METADATA_LOG = "metadata-log"
"""The source of rows of CLUSTER that are the controllers' own decisions."""

METADATA_TOPIC = "__cluster_metadata"
"""The metadata log's name among the replicas; its partition is 0."""

# Every record batch in every replica's files, after shutdown. digest: hex of the batch's bytes.
REPLICAS = pa.schema(
    [
        pa.field("node", pa.int32(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("base_offset", pa.int64(), nullable=False),
        pa.field("last_offset", pa.int64(), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("crc", pa.int64(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
    ]
)

# The end of every replica's log, and the high watermark that the replica knew.
REPLICA_ENDS = pa.schema(
    [
        pa.field("node", pa.int32(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("start_offset", pa.int64(), nullable=False),
        pa.field("end_offset", pa.int64(), nullable=False),
        pa.field("high_watermark", pa.int64(), nullable=False),
    ]
)

SCHEMAS: Mapping[str, pa.Schema] = {
    "history": HISTORY,
    "cluster": CLUSTER,
    "faults": FAULTS,
    "replicas": REPLICAS,
    "replica_ends": REPLICA_ENDS,
}

# An Arrow IPC stream that was closed in order ends with this mark; a reader accepts its absence.
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def table(schema: pa.Schema, rows: Iterable[Mapping[str, Any]] = ()) -> pa.Table:
    """Make a table of `schema`; a column that a row does not name is null. Raises HistoryError."""
    names = set(schema.names)
    listed = [dict(row) for row in rows]
    for row in listed:
        if unknown := sorted(row.keys() - names):
            raise HistoryError(f"no such column: {', '.join(unknown)}; known: {schema.names}")
    try:
        # from_pylist does not enforce `nullable`; required columns are checked by hand.
        made = pa.Table.from_pylist(listed, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise HistoryError(f"rows do not fit the schema: {error}") from error
    for field in schema:
        if not field.nullable and made[field.name].null_count:
            raise HistoryError(f"column {field.name!r} is required and has empty rows")
    return made


def validate(found: pa.Schema, wanted: pa.Schema, where: str) -> None:
    """Check that `found` has every column of `wanted` with its type. Raises HistoryError that names
    the column.

    Further columns are allowed, because a later version may have written more. A column marked
    LATER may be missing.
    """
    for field in wanted:
        index = found.get_field_index(field.name)
        if index < 0 and field.metadata:
            continue
        if index < 0:
            raise HistoryError(f"{where}: column {field.name!r} is missing")
        kind = found.field(index).type
        if not _same_type(kind, field.type):
            raise HistoryError(f"{where}: column {field.name!r} is {kind}, expected {field.type}")


def _same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    # Parquet renames a list's inner field; only the element type matters.
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return bool(found.value_type == wanted.value_type)
    return bool(found == wanted)


def read_arrow_stream(path: Path, schema: pa.Schema = HISTORY) -> tuple[pa.Table, bool]:
    """Read an Arrow IPC stream that may have been cut at any byte.

    Returns the table of all complete batches, and whether the stream was closed in order. A stream
    that was cut before its schema gives an empty table of `schema`. Raises HistoryError when the
    stream's own schema lacks a column.
    """
    batches: list[pa.RecordBatch] = []
    try:
        with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as stream:
            validate(stream.schema, schema, str(path))
            complete = False
            try:
                batches.extend(stream)
                complete = ends_in_order(path)
            except (pa.ArrowInvalid, OSError):
                pass  # cut in the middle of a message: all batches before it are complete
    except (pa.ArrowInvalid, OSError) as error:
        if not path.is_file():
            raise HistoryError(f"{path}: cannot be read: {error}") from error
        return arrow.no_rows(schema), False
    return conform(pa.Table.from_batches(batches, stream.schema), schema), complete


def conform(found: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of `schema` in its order; a column that an older table lacks is null."""
    columns = [
        found[field.name]
        if field.name in found.column_names
        else pa.nulls(found.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def ends_in_order(path: Path) -> bool:
    """Whether a stream was closed in order."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - len(END_OF_STREAM)))
        return file.read() == END_OF_STREAM


Source: TypeAlias = "Path | str | pa.Table"
"""A Parquet file; the address of Parquet files that only Spark reads (with a scheme, and possibly
wildcards); or rows in memory."""


def read_sources(sources: Iterable[Source], schema: pa.Schema) -> pa.Table:
    """Return all rows of sources on this machine, with the columns of `schema`. Raises HistoryError
    for a damaged file."""
    tables = [arrow.no_rows(schema)]
    for each in sources:
        try:
            rows = each if isinstance(each, pa.Table) else arrow.read(each)
        except (pa.ArrowException, OSError) as error:
            raise HistoryError(f"{each}: cannot be read: {error}") from error
        tables.append(conform(rows, schema))
    return pa.concat_tables(tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSources:
    """The sources of one run's tables, each validated against its schema.

    missing: tables without a file (the run ended before they were written); they are judged as
    empty. cut: streams of the history that did not end in order. run_file: the content of run.json.
    """

    history: tuple[Source, ...]
    cluster: tuple[Source, ...]
    faults: tuple[Source, ...]
    replicas: tuple[Source, ...]
    replica_ends: tuple[Source, ...]
    missing: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    run_file: RunFile = NOTHING_SAID


def load_run(run_dir: Path) -> RunSources:
    """Find and validate the files of a run directory. Raises HistoryError when it is not a run."""
    if not run_dir.is_dir():
        raise HistoryError(f"{run_dir}: no such run directory")
    if (found := irregular(run_dir)) is not None:
        raise HistoryError(irregular_told(found))
    if not (run_dir / "plan.json").is_file():
        raise HistoryError(f"{run_dir}: is no run: it has no plan.json")
    tables = {name: _load_table(run_dir, name) for name in SCHEMAS}
    return RunSources(
        **{name: tuple(each.source for each in files) for name, files in tables.items()},
        missing=tuple(name for name, files in tables.items() if not files),
        cut=tuple(each.stem + STREAM for each in tables["history"] if each.cut),
        run_file=read_run_file(run_dir),
    )


def load_table(run_dir: Path, name: str) -> tuple[Source, ...]:
    """Return the files of one table (a name of SCHEMAS), which may be none. Raises HistoryError for
    a file that is damaged or missing."""
    return tuple(each.source for each in _load_table(run_dir, name))


class _File(NamedTuple):
    """A file of a table. cut: its stream did not end in order. followed: another segment came after
    it."""

    stem: str
    source: Source
    cut: bool
    followed: bool


def _load_table(run_dir: Path, name: str) -> list[_File]:
    """Return the files of a table. Raises HistoryError for a missing segment."""
    paths = table_files(run_dir, name)
    more = {path.stem for path in followed_by_another(paths)}
    files = [_load_file(path, SCHEMAS[name], followed=path.stem in more) for path in paths]
    gone = lacking({each.stem for each in files}, {each.stem for each in files if each.followed})
    folder = run_dir / name
    # A segment that was written after the listing is not missing: the next call reads its rows.
    for stem in gone:
        if not any((folder / f"{stem}{kind}").exists() for kind in (STREAM, SEALED)):
            raise HistoryError(segment_missing(f"{folder / stem}{SEALED}"))
    # A cut history can be judged. A gap in the cluster's rows cannot.
    if name != "history" and (torn := [each for each in files if each.cut and each.followed]):
        raise HistoryError(segment_torn(folder / torn[0].stem))
    return files


def _load_file(path: Path, schema: pa.Schema, *, followed: bool) -> _File:
    if path.suffix == STREAM:
        try:
            rows, complete = read_arrow_stream(path, schema)
            return _File(path.stem, rows, not complete, followed)
        except HistoryError:
            path = path.with_suffix(SEALED)
            if not path.is_file():  # else the stream was sealed after the listing
                raise
    try:
        found = pa.parquet.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise HistoryError(f"{path}: is no readable Parquet file: {error}") from error
    marks = (found.metadata or {}).items()
    validate(found, schema, str(path))
    _no_empty_rows(path, found, schema)
    return _File(path.stem, path, CUT.items() <= marks, followed or FOLLOWED.items() <= marks)


def _no_empty_rows(path: Path, found: pa.Schema, schema: pa.Schema) -> None:
    """Refuse a foreign file whose statistics show nulls in a required column."""
    needed = {f.name for f in schema if not f.nullable and found.field(f.name).nullable}
    if not needed:
        return
    about = pa.parquet.read_metadata(path)
    for group in range(about.num_row_groups):
        for number in range(about.num_columns):
            column = about.row_group(group).column(number)
            told = column.statistics
            if column.path_in_schema in needed and told is not None and told.null_count:
                name = column.path_in_schema
                raise HistoryError(f"{path}: column {name!r} is required and has empty rows")


def load_plan(run_dir: Path) -> dict[str, Any]:
    """Return the run's plan.json as a dict. Raises HistoryError when it cannot judge a run."""
    path = run_dir / "plan.json"
    try:
        return parse_plan(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise HistoryError(f"{path}: cannot be read as a plan: {error}") from error


def parse_plan(text: str, where: str) -> dict[str, Any]:
    """Parse a plan.json as a dict. Raises HistoryError; its text starts with `where`."""
    try:
        plan = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HistoryError(f"{where}: cannot be read as a plan: {error}") from error
    if not isinstance(plan, dict):
        raise HistoryError(f"{where}: is no plan: expected a JSON object")
    if wrong := wrong_with(plan):
        raise HistoryError(f"{where}: is no plan to judge by: {wrong}")
    return plan
