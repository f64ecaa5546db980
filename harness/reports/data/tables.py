"""A run's tables as views of an embedded DuckDB, which does all the counting."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa

from checkers.history.arrow import no_rows, take_over
from checkers.history.history import SCHEMAS, Source
from harness.reports.data.loading import Stored

FARTHEST: Final = (1 << 53) - 1024
"""JavaScript holds whole numbers up to 2**53; evidence is looked for a few numbers further."""
FARTHEST_NS: Final = 1 << 61
"""Of times, which are drawn in µs, and whose differences must be numbers, too."""
NAMES: Final = frozenset({"op", "value", "txn", "crc"})
"""Numbers that are names: they are drawn in parts or not at all."""


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
            recorded = " UNION ALL BY NAME ".join(parts)
            # DuckDB's least and greatest leave nulls out: of null and a bound each is the bound.
            bounds = ", ".join(
                f'CASE WHEN "{column}" IS NOT NULL '
                f'THEN greatest(least("{column}", {bound}), -{bound}) END AS "{column}"'
                for column, bound in _bounds(name).items()
            )
            db.execute(f"CREATE VIEW {name}_recorded AS {recorded}")
            db.execute(f"CREATE VIEW {name} AS SELECT * REPLACE ({bounds}) FROM {name}_recorded")
        yield db


def _bounds(name: str) -> dict[str, int]:
    """Up to which number each column of a table is drawn."""
    numbers = [field.name for field in SCHEMAS[name] if field.type == pa.int64()]
    times = {each: FARTHEST_NS for each in numbers if each.endswith("_ns")}
    return {each: FARTHEST for each in numbers if each not in NAMES} | times


def beyond(db: Any) -> int:
    """How many rows have a number that no page can draw, and that is drawn at the bound."""
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
