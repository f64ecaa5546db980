"""A run's tables as views of an embedded DuckDB, which does the counting."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa

from checkers.history.arrow import no_rows, take_over
from checkers.history.history import SCHEMAS, Source
from harness.reports.data.loading import StoredRun

FARTHEST: Final = (1 << 53) - 1024
"""JavaScript has exact integers up to 2**53; evidence is searched a few numbers beyond an
offset."""
FARTHEST_NS: Final = 1 << 61
"""The bound of times: they are drawn in µs, and their differences must be in range too."""
NAMES: Final = frozenset({"op", "value", "txn", "crc"})
"""Columns whose numbers are names: they are drawn in parts or not at all."""


@contextmanager
def connect(stored: StoredRun) -> Iterator[Any]:
    """Open a connection with a view of every table of a run; a view without stored rows is
    empty."""
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as db:
        db.execute("SET enable_progress_bar = false")  # standard output belongs to the command
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
            # Gives the view every column, also without stored rows.
            take_over(db, f"{name}_empty", no_rows(SCHEMAS[name]))
            parts.append(f"SELECT * FROM {name}_empty")
            recorded = " UNION ALL BY NAME ".join(parts)
            # DuckDB's least and greatest ignore nulls: of null and a bound, both are the bound.
            bounds = ", ".join(
                f'CASE WHEN "{column}" IS NOT NULL '
                f'THEN greatest(least("{column}", {bound}), -{bound}) END AS "{column}"'
                for column, bound in _bounds(name).items()
            )
            db.execute(f"CREATE VIEW {name}_recorded AS {recorded}")
            db.execute(f"CREATE VIEW {name} AS SELECT * REPLACE ({bounds}) FROM {name}_recorded")
        yield db


def _bounds(name: str) -> dict[str, int]:
    """Return the largest number that is drawn, by column of a table."""
    numbers = [field.name for field in SCHEMAS[name] if field.type == pa.int64()]
    times = {each: FARTHEST_NS for each in numbers if each.endswith("_ns")}
    return {each: FARTHEST for each in numbers if each not in NAMES} | times


def rows_out_of_range(db: Any) -> int:
    """Count the rows with a number beyond the bound; it is drawn at the bound."""
    return sum(
        db.execute(
            f"SELECT count(*) FROM {name}_recorded WHERE "
            + " OR ".join(
                f'"{column}" NOT BETWEEN -{bound} AND {bound}'
                for column, bound in _bounds(name).items()
            )
        ).fetchone()[0]
        for name in SCHEMAS
    )
