"""Where a long history is cut, so that what lies at the same offsets is judged together in memory.

Files tell in their footers how many of their rows lie where. A log grows with time, and so does a
history: what lies in a slice of offsets is near together in every file, and little else is read for
it. A single partition is cut like many.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pyarrow.parquet

from checkers.engines.engine import Engine, Frame
from checkers.history.history import Source

OFFSETS = 1 << 12
"""All cuts are at multiples of this: who looks at buckets of so many neighbouring offsets finds
none cut."""

Narrow: TypeAlias = Callable[[Frame], Frame]
"""Leaves of a frame with a column `offset` the rows of one slice."""


def cuts(sources: Sequence[Source], rows_at_once: int) -> tuple[int, ...]:
    """The offsets at which slices begin, but for the first; none when `rows_at_once` has room for
    all rows, of which more than that are in a slice only where files are in no order."""
    groups = sorted(group for path in sources if isinstance(path, Path) for group in _groups(path))
    rows_in_all = sum(rows for _, rows in groups)
    per_slice = rows_in_all / max(1, -(-rows_in_all // rows_at_once))
    found: list[int] = []
    before = 0
    for last, rows in groups[:-1]:
        before += rows
        if before >= per_slice * (len(found) + 1):
            found.append((last + 1) // OFFSETS * OFFSETS)
    return tuple(sorted({cut for cut in found if cut > 0}))


def _groups(path: Path) -> Iterator[tuple[int, int]]:
    """The last offset and the number of rows of each row group that has offsets."""
    about = pyarrow.parquet.read_metadata(path)
    column = about.schema.to_arrow_schema().get_field_index("offset")
    for number in range(about.num_row_groups):
        told = about.row_group(number).column(column).statistics
        if told is not None and told.has_min_max:
            yield told.max, about.row_group(number).num_rows


def slices(engine: Engine, history: Sequence[Source]) -> list[Narrow]:
    """One narrowing for each slice of a history, of as many rows as the engine best takes at once.
    Every row is in one of them; the last is of rows without an offset, if there are several."""
    room = engine.rows_at_once
    found = () if room is None else cuts(history, room)
    if not found:
        return [_whole]
    between = [partial(_between, engine, *edges) for edges in pairwise([None, *found, None])]
    return [*between, partial(_nowhere, engine)]


def _whole(rows: Frame) -> Frame:
    return rows


def _between(engine: Engine, first: int | None, beyond: int | None, rows: Frame) -> Frame:
    F = engine.functions
    if first is not None:
        rows = rows.where(F.col("offset") >= F.lit(first))
    if beyond is not None:
        rows = rows.where(F.col("offset") < F.lit(beyond))
    return rows


def _nowhere(engine: Engine, rows: Frame) -> Frame:
    # A slice of its own: where rows may also lack an offset, files cannot tell which to leave out.
    return rows.where(engine.functions.col("offset").isNull())
