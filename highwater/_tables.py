"""A table of a run, read when it is asked for, as a frame of the reader's choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from highwater._errors import EngineUnavailable, translated

if TYPE_CHECKING:
    import duckdb
    import pandas
    import pyarrow
    import pyspark.sql

    from checkers.history.history import Source

MAX_SHOWN_ROWS = 20


class Table:
    """A table of a run. Nothing is read before one of its methods is called.

    docs/reference/data.md describes every column. Times are nanoseconds since the run began.
    A column that the run lacks, because an earlier version recorded it, is null.

    Example:
        >>> faults = highwater.load(RUN).faults
        >>> faults
        <Table faults: 15 columns>
        >>> faults.columns[:3]
        ('fault_id', 'fault', 'label')
    """

    def __init__(
        self, name: str, schema: pyarrow.Schema, find: Callable[[], Sequence[Source]]
    ) -> None:
        self._name = name
        self._schema = schema
        self._find = find

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema: every column with its type.

        Example:
            >>> highwater.load(RUN).operations.schema.field("op").type
            DataType(int64)
        """
        return self._schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns.

        Example:
            >>> "effect" in highwater.load(RUN).faults.columns
            True
        """
        return tuple(self._schema.names)

    @cached_property
    def _sources(self) -> tuple[Source, ...]:
        with translated():
            return tuple(self._find())

    def arrow(self) -> pyarrow.Table:
        """Return all rows as an Arrow table. Raises RunUnreadable.

        Example:
            >>> highwater.load(RUN).operations.arrow().num_rows > 0
            True
        """
        from checkers.history.history import read_sources

        with translated():
            return read_sources(self._sources, self._schema)

    def pandas(self) -> pandas.DataFrame:
        """Return all rows as a pandas DataFrame. Raises RunUnreadable.

        Whole numbers stay whole where a column has nulls: columns have Arrow types.

        Example:
            >>> operations = highwater.load(RUN).operations.pandas()
            >>> str(operations.dtypes["value"])
            'int64[pyarrow]'
            >>> sends = operations[operations.f == "send"]
            >>> bool((sends.type == "ok").any())
            True
        """
        import pandas as pd

        return self.arrow().to_pandas(types_mapper=pd.ArrowDtype)

    def duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return the rows as a DuckDB relation of `connection` (default: DuckDB's own).

        Parquet files are read by DuckDB itself, and only the columns that a query names.

        Example:
            >>> operations = highwater.load(RUN).operations.duckdb()
            >>> operations.filter("f = 'send'").aggregate("count(*) > 0").fetchone()
            (True,)
        """
        import duckdb

        made = duckdb.default_connection() if connection is None else connection
        paths = self._files_with_all_columns()
        if paths is None:
            return made.from_arrow(self.arrow())
        columns = ", ".join(f'"{name}"' for name in self.columns)
        return made.read_parquet(paths).select(columns)

    def spark(self, session: pyspark.sql.SparkSession) -> pyspark.sql.DataFrame:
        """Return the rows as a DataFrame of a Spark session.

        Spark's workers read the Parquet files: all machines must see them under the same path.
        Raises EngineUnavailable without PySpark.

        Example:
            >>> faults = highwater.load(SIMULATED).faults.spark(SPARK)
            >>> faults.where("took_effect").count()
            1
        """
        try:
            from checkers.engines.engine import SparkEngine
        except ImportError as error:
            raise EngineUnavailable(f"PySpark cannot be imported: {error}") from error
        with translated():
            return SparkEngine(session).load(self._sources, self._schema)

    def __len__(self) -> int:
        """The number of rows; of Parquet files only the footers are read.

        Example:
            >>> len(highwater.load(RUN).operations) > 0
            True
        """
        import pyarrow as pa
        import pyarrow.parquet

        return sum(
            each.num_rows
            if isinstance(each, pa.Table)
            else pyarrow.parquet.read_metadata(each).num_rows
            for each in self._sources
        )

    def __bool__(self) -> bool:
        """A table is true, also without rows: `if run.faults:` must not read files."""
        return True

    def __repr__(self) -> str:
        return f"<Table {self._name}: {len(self.columns)} columns>"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        shown = self.arrow()
        more = shown.num_rows - MAX_SHOWN_ROWS
        text: str = shown.slice(0, MAX_SHOWN_ROWS).to_pandas().to_html(notebook=True)
        return text + (f"<p>and {more:,} more rows</p>" if more > 0 else "")

    def _files_with_all_columns(self) -> list[str] | None:
        """The Parquet files, if the table is nothing but files that have every column."""
        import pyarrow as pa
        import pyarrow.parquet

        wanted = set(self.columns)
        for each in self._sources:
            if isinstance(each, pa.Table):
                return None
            if not wanted <= set(pyarrow.parquet.read_schema(each).names):
                return None
        return [str(each) for each in self._sources] or None
