"""Make Arrow tables, read them, and pass them to DuckDB without importing pandas.

The usual functions import pandas and pyarrow.dataset only to check types. That import takes longer
than judging an ordinary run.
"""

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet


def few_rows(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Make a table of Python rows; a column that a row does not name is null. Raises ArrowInvalid
    for a value that does not fit."""
    text = "\n".join(map(json.dumps, rows)).encode()
    if not text:
        return no_rows(schema)
    wanted = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    made = pyarrow.json.read_json(io.BytesIO(text), parse_options=wanted)
    return pa.table(made.columns, schema=schema)


def no_rows(schema: pa.Schema) -> pa.Table:
    """An empty table."""
    return pa.Table.from_batches([], schema)


def read(path: Path | str) -> pa.Table:
    """Read a whole Parquet file. Raises ArrowInvalid, OSError."""
    with pyarrow.parquet.ParquetFile(path) as file:
        return file.read()


def take_over(database: Any, name: str, rows: pa.Table) -> None:
    """Make a table in DuckDB, with a name that needs no quotes. Raises DuckDB's errors."""
    stream = f"{name.rpartition('.')[2]}_stream"
    database.register(stream, rows.__arrow_c_stream__())
    database.execute(f"CREATE TABLE {name} AS SELECT * FROM {stream}")
    database.unregister(stream)
