"""One DataFrame interface, two engines: embedded DuckDB and PySpark.

A detector is written once, in PySpark's DataFrame API, and takes `functions` and `Window` from the
engine it is handed; it imports neither library, so both engines live in one process. Frames are
lazy and stay inside the engine; only `rows` brings data to the driver, and callers hand it nothing
but aggregates and bounded examples.

PySpark's API on DuckDB is `checkers.engines.embedded`. Detectors use only what both engines have:
DuckDB has no `functions.window` (time is bucketed by integer division), and `floor(a / b)` is not
an integer division for large numbers (`div` in SQL text is, see `div`).

    EngineError           the engine is not available on this machine
    EngineTimeout         a computation ran longer than its time limit
"""

import contextlib
import functools
import itertools
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet

from checkers.engines.embedded.columns import Window, literal, quoted
from checkers.engines.embedded.frames import Frame as SqlFrame
from checkers.engines.embedded.functions import Functions
from checkers.history.arrow import few_rows, no_rows, take_over
from checkers.history.history import Source

Frame: TypeAlias = Any
"""A DataFrame of the engine in use; both kinds have PySpark's methods."""

Column: TypeAlias = Any
"""A column expression of the engine in use."""


MEMORY_LIMIT = "3GB"
"""How much memory the embedded engine uses before it spills to disk. A process has more."""


LOADED_BYTES = 1 << 20
"""Files up to this size are read into memory once. Reading columns of larger files again is faster
than keeping them in memory."""


SPILLING_BYTES = 1 << 27
"""Frames that are derived from larger files would not fit into MEMORY_LIMIT."""


ROWS_FOR_ONE_THREAD = 4 * 122_880
"""DuckDB shares rows out in groups of 122,880. Until each thread has several groups, further
threads mostly wait, which costs a third more CPU."""


FOR_MANY_ROWS = (
    "expression_rewriter",
    "common_subplan",
    "common_subexpressions",
    "join_order",
    "join_elimination",
    "statistics_propagation",
    "duplicate_groups",
    "column_lifetime",
)
"""DuckDB's optimizers that cost more than they save when one thread is enough."""


ROWS_AT_ONCE = 40_000_000
"""How many rows of a history fit into MEMORY_LIMIT while they are joined or sorted."""


FEW_TEXTS = ("topic", "type")
"""Columns with only a few different texts. (`f` is one too, but rows are selected by it, and the
statistics of files exclude row groups only for plain texts.)"""


CASES = 8
"""Up to this number of texts, a CASE is faster than DuckDB's look-up for each row."""


class EngineError(Exception):
    """The engine is not available; the message says what is missing."""


class EngineTimeout(Exception):
    """A computation was stopped at its time bound."""


class Engine(Protocol):
    """The interface of an engine for detectors and the checker."""

    @property
    def name(self) -> str:
        """`duckdb` or `spark`."""

    @property
    def functions(self) -> Any:
        """The functions module, as `pyspark.sql.functions`."""

    @property
    def window(self) -> Any:
        """The window specification class, as `pyspark.sql.Window`."""

    def load(self, sources: Sequence[Source], schema: pa.Schema) -> Frame:
        """The rows of all sources as one frame with the columns of `schema`. A column that a file
        lacks is null."""

    @property
    def rows_at_once(self) -> int | None:
        """How many rows of a history are best joined and sorted at once; None: any number."""

    def materialize(self, *frames: Frame) -> Frame:
        """Compute the rows of all frames once, one frame after the other, now or at first use, and
        return them as one frame. The frames have the same columns."""

    def rows(self, frame: Frame) -> list[dict[str, Any]]:
        """Return the rows of a small frame."""

    def arrow(self, frame: Frame) -> pa.Table:
        """Return the rows of a frame as an Arrow table; they must fit into memory."""

    def is_empty(self, frame: Frame) -> bool:
        """Whether a frame has no rows."""

    def bounded(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        """Raise EngineTimeout when the computations inside the block take longer."""

    def close(self) -> None:
        """Free memory and temporary files. The engine and its frames cannot be used any more."""


def as_frame(engine: Engine, rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> Frame:
    """Make a frame of a few rows; a column that a row does not name is null."""
    return engine.load([few_rows(rows, schema)], schema)


def left_join(left: Frame, right: Frame, on: list[str]) -> Frame:
    """Join all rows of `left` with the columns of `right` for equal keys, else null. The columns of
    `left` come first."""
    names = [*left.columns, *(name for name in right.columns if name not in on)]
    return left.join(right, on=on, how="left").select(*names)


def div(engine: Engine, column: str, divisor: int) -> Column:
    """Integer division of a column that is not negative."""
    return engine.functions.expr(f"`{column}` div {divisor}")


def listed(engine: Engine, column: str) -> Column:
    """Return the distinct integers of a column in a group, ascending, as a text: `3,17`."""
    sorted_ones = f"array_sort(collect_set(`{column}`))"
    return engine.functions.expr(f"array_join(cast({sorted_ones} as array<string>), ',')")


BLOCK_BITS = 5
"""Integers that differ only in this number of last bits are in one block."""


def block_bit(engine: Engine, column: str) -> Column:
    """Return a bigint with one bit, which is different for each integer of a block."""
    last = (1 << BLOCK_BITS) - 1
    return engine.functions.expr(f"shiftleft(1L, cast(`{column}` & {last} as int))")


class _Selected(NamedTuple):
    """A query for the columns `names` of a table or of files."""

    names: Sequence[str]
    source: str

    @property
    def sql(self) -> str:
        return f"SELECT {', '.join(map(quoted, self.names))} FROM {self.source}"


class DuckDbEngine:
    """The embedded engine: it runs in this process, starts at once, and can spill to disk.

    Intermediate results are tables of a private database. The database is in memory and spills to a
    temporary directory; once large files are read, it is a file in that directory. DuckDB
    compresses the database file, and need not write its pages again to free memory. The directory
    exists only while it is used, so a killed process leaves one behind only if it was spilling, or
    judged a large history.
    """

    name = "duckdb"
    rows_at_once = ROWS_AT_ONCE

    def __init__(self, *, threads: int | None = None) -> None:
        import duckdb

        # DuckDB makes the directory when it spills.
        self._folder = Path(tempfile.gettempdir(), f"highwater-duckdb-{secrets.token_hex(8)}")
        self._database = "memory"
        self._connection = duckdb.connect(
            config={"temp_directory": str(self._folder), "memory_limit": MEMORY_LIMIT}
        )
        self._connection.execute("SET preserve_insertion_order = false")
        # Standard output is not its own.
        self._connection.execute("SET enable_progress_bar = false")
        self._threads = threads
        """How many threads large histories get; None: one for each processor."""
        self._connection.execute("SET threads = 1")
        self._connection.execute(f"SET disabled_optimizers = {literal(','.join(FOR_MANY_ROWS))}")
        self._interrupted_error = duckdb.InterruptException
        self._numbers = itertools.count()
        self.functions: Any = Functions()
        self.window: Any = Window()

    def load(self, sources: Sequence[Source], schema: pa.Schema) -> Frame:
        """Large files are read again for each scan; everything else becomes a table."""
        if addresses := [source for source in sources if isinstance(source, str)]:
            raise EngineError(f"{addresses[0]}: only Spark reads such an address: --engine spark")
        paths = [source for source in sources if isinstance(source, Path)]
        tables = [source for source in sources if isinstance(source, pa.Table)]
        self._expect(
            sum(table.num_rows for table in tables)
            + sum(pyarrow.parquet.read_metadata(path).num_rows for path in paths)
        )
        if not paths:
            return SqlFrame(self._taken_over(tables, schema), schema.names)
        selects = [*self._of_files(paths, schema)]
        if tables or len(selects) > 1 or len(selects[0].names) < len(schema):
            # The table comes first: it has all columns, and files may lack some.
            selects.insert(0, _Selected(schema.names, self._taken_over(tables, schema)))
        everything = f"({' UNION ALL BY NAME '.join(each.sql for each in selects)})"
        size = sum(path.stat().st_size for path in paths)
        if size <= LOADED_BYTES:
            return self.materialize(SqlFrame(everything, schema.names))
        if size > SPILLING_BYTES:
            self._keep_in_a_file()
        coded = [self._coded(name, everything) for name in schema.names]
        return SqlFrame(f"(SELECT {', '.join(coded)} FROM {everything})", schema.names)

    def _expect(self, rows: int) -> None:
        """Use all threads and optimizers from now on if these are many rows."""
        if rows > ROWS_FOR_ONE_THREAD:
            self._connection.execute("RESET disabled_optimizers")
            several = "RESET threads" if self._threads is None else f"SET threads = {self._threads}"
            self._connection.execute(several)

    def _of_files(self, paths: Sequence[Path], schema: pa.Schema) -> Iterator[_Selected]:
        """Yield one query for all files with the same columns of `schema`."""
        alike: dict[tuple[str, ...], list[Path]] = {}
        for path in paths:
            found = set(pyarrow.parquet.read_schema(path).names)
            alike.setdefault(tuple(n for n in schema.names if n in found), []).append(path)
        for names, files in alike.items():
            listed = ", ".join(literal(str(path)) for path in files)
            yield _Selected(names, f"read_parquet([{listed}])")

    def _taken_over(self, tables: Sequence[pa.Table], schema: pa.Schema) -> str:
        """Make a table of the database with the rows of `tables`, and return its name."""
        rows = pa.concat_tables([no_rows(schema), *tables]).select(schema.names)
        name = f"{self._database}.{self._new_name()}"
        take_over(self._connection, name, rows)
        return name

    def _keep_in_a_file(self) -> None:
        """Create further tables in a database file; existing tables stay in memory."""
        if self._database != "kept":
            self._folder.mkdir(exist_ok=True)
            path = literal(str(self._folder / "kept.duckdb"))
            self._connection.execute(f"ATTACH {path} AS kept")
            self._database = "kept"

    def _coded(self, column: str, rows: str) -> str:
        """Return the expression that selects a column. For a column with few different texts it is
        an ENUM, so that numbers are stored, sorted and compared."""
        if column not in FEW_TEXTS:
            return quoted(column)
        name, kind = quoted(column), self._new_name()
        distinct = f"SELECT DISTINCT {name} FROM {rows} WHERE {name} IS NOT NULL ORDER BY {name}"
        known = [literal(text) for (text,) in self._connection.execute(distinct).fetchall()]
        if not known:
            return name
        self._connection.execute(f"CREATE TYPE {kind} AS ENUM ({', '.join(known)})")
        if len(known) > CASES:
            return f"CAST({name} AS {kind}) AS {name}"
        cases = " ".join(f"WHEN {text} THEN {text}::{kind}" for text in known)
        return f"CASE {name} {cases} END AS {name}"

    def materialize(self, *frames: Frame) -> Frame:
        """The rows are computed now, into a table."""
        name, rows = f"{self._database}.{self._new_name()}", 0
        for number, frame in enumerate(frames):
            into = f"INSERT INTO {name}" if number else f"CREATE TABLE {name} AS"
            (made,) = self._connection.execute(f"{into} {frame.sql}").fetchall()
            rows += made[0]
        return SqlFrame(name, frames[0].columns, row_count=rows)

    def rows(self, frame: Frame) -> list[dict[str, Any]]:
        """The rows as dicts."""
        # For a few rows an Arrow table takes as long as the query.
        found = self._connection.execute(frame.sql).fetchall()
        return [dict(zip(frame.columns, row, strict=True)) for row in found]

    def arrow(self, frame: Frame) -> pa.Table:
        """Without a copy by way of Python."""
        return self._connection.execute(frame.sql).to_arrow_table()

    def is_empty(self, frame: Frame) -> bool:
        """Stops at the first row."""
        if frame.row_count is not None:
            return bool(frame.row_count == 0)
        found = self._connection.execute(f"SELECT 1 FROM ({frame.sql}) LIMIT 1")
        return found.fetchone() is None

    @contextlib.contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """Interrupts the running query at the bound."""
        timer = threading.Timer(seconds, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        except self._interrupted_error as error:
            raise EngineTimeout(f"took longer than {seconds:g} s") from error
        finally:
            timer.cancel()

    def close(self) -> None:
        """Close the database, and remove what is on the disk."""
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _new_name(self) -> str:
        return f"t{next(self._numbers)}"


class SparkEngine:
    """PySpark: the same detectors for histories that need a cluster."""

    name = "spark"
    rows_at_once = None

    def __init__(self, session: Any) -> None:
        try:
            from pyspark.sql import Window
            from pyspark.sql import functions as functions_module
        except ImportError as error:
            raise EngineError(f"PySpark cannot be imported: {error}") from error
        self._session = session
        self._kept: list[Frame] = []
        self._folder: Path | None = None
        if _is_of_this_process(session) and _is_local(session):
            self._folder = Path(tempfile.gettempdir(), f"highwater-spark-{secrets.token_hex(8)}")
        self._numbers = itertools.count()
        self.functions: Any = functions_module
        self.window: Any = Window

    def load(self, sources: Sequence[Source], schema: pa.Schema) -> Frame:
        """Spark's reader loads files; Arrow loads tables in memory."""
        from pyspark.sql.pandas.types import from_arrow_schema

        paths = [str(source) for source in sources if isinstance(source, Path | str)]
        tables = [source for source in sources if isinstance(source, pa.Table)]
        frames = []
        if paths:
            reader = self._session.read.schema(from_arrow_schema(schema))
            frames.append(reader.parquet(*paths))
        if tables or not paths:
            rows = pa.concat_tables([schema.empty_table(), *tables]).select(schema.names)
            # Spark Connect does not take the schema of a table without rows from the table.
            known = from_arrow_schema(rows.schema)
            frames.append(self._session.createDataFrame(rows, schema=known))
        first, *others = frames
        for other in others:
            first = first.unionByName(other)
        return first

    def materialize(self, *frames: Frame) -> Frame:
        """A session on this machine computes the rows now, into files; a cluster computes them at
        first use.

        The plan of a frame in files is as small as that of a table. A cached frame brings its plan,
        and the plans of all frames it is derived from, into every plan that uses it: plans double
        with each step, up to hundreds of megabytes, and Spark spends more time on plans than on
        rows."""
        frame = functools.reduce(lambda one, other: one.unionByName(other), frames)
        if self._folder is None:
            kept = self._kept_by_cluster(frame)
            self._kept.append(kept)
            return kept
        path = str(self._folder / str(next(self._numbers)))
        frame.write.parquet(path)
        return self._session.read.schema(frame.schema).parquet(path)

    def _kept_by_cluster(self, frame: Frame) -> Frame:
        """On executors, in memory or on their disks."""
        if not _is_of_this_process(self._session):
            if _is_local(self._session):
                return frame.localCheckpoint(eager=False)
            return frame.persist()  # Spark Connect to a cluster has nothing better
        from pyspark.sql import DataFrame

        # Rows of a cluster can be lost with a worker, and are computed again from these.
        jvm_session = self._session._jsparkSession
        rows = jvm_session.createDataFrame(frame._jdf.toJavaRDD(), frame._jdf.schema())
        return DataFrame(rows, self._session).persist()

    def rows(self, frame: Frame) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return [row.asDict(recursive=True) for row in frame.collect()]

    def arrow(self, frame: Frame) -> pa.Table:
        """Collected on the driver."""
        return frame.toArrow()

    def is_empty(self, frame: Frame) -> bool:
        """Stops at the first row."""
        return bool(frame.isEmpty())

    @contextlib.contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """Cancels the running jobs at the bound."""
        session = self._session
        # Tags, not job groups: Spark Connect has no others.
        tag = f"highwater-{id(self)}-{next(self._numbers)}"
        expired = threading.Event()

        def cancel() -> None:
            expired.set()
            session.interruptTag(tag)

        session.addTag(tag)
        timer = threading.Timer(seconds, cancel)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception as error:
            if expired.is_set():
                raise EngineTimeout(f"took longer than {seconds:g} s") from error
            raise
        finally:
            timer.cancel()
            session.removeTag(tag)

    def close(self) -> None:
        """Forget what was kept; the session belongs to whoever made it."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _is_of_this_process(session: Any) -> bool:
    """Whether its driver is a JVM of this process; Spark Connect's is a server."""
    return hasattr(session, "_jsparkSession")


def _is_local(session: Any) -> bool:
    """Whether all of its executors are in its driver."""
    return bool(session.conf.get("spark.master", "").startswith("local"))
