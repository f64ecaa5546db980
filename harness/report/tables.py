"""A run's tables as views of an embedded DuckDB, which does all the counting."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from checkers.arrow import no_rows, take_over
from checkers.history import SCHEMAS, Source
from harness.report.loading import Stored


@contextmanager
def connect(stored: Stored) -> Iterator[Any]:
    """A connection with a view of every table of a run; empty where nothing is stored."""
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as db:
        db.execute("SET enable_progress_bar = false")  # standard output is not its own
        for name in SCHEMAS:
            sources: Sequence[Source] = stored.tables.get(name, ())
            parts = []
            for number, source in enumerate(sources):
                if isinstance(source, pa.Table):
                    take_over(db, f"{name}_{number}", source)
                    parts.append(f"SELECT * FROM {name}_{number}")
                else:
                    quoted = str(source).replace("'", "''")
                    parts.append(f"SELECT * FROM read_parquet('{quoted}')")
            # So that the view has every column also when nothing was stored.
            take_over(db, f"{name}_empty", no_rows(SCHEMAS[name]))
            parts.append(f"SELECT * FROM {name}_empty")
            db.execute(f"CREATE VIEW {name} AS {' UNION ALL BY NAME '.join(parts)}")
        yield db
