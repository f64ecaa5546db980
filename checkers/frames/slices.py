"""Cuts a long history into slices of offsets, so that each slice fits into memory.

The footers of Parquet files say how many rows have which offsets. Logs and histories both grow with
time, so the rows of a slice are close together in every file, and little else is read. One
partition is cut in the same way as many.
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
"""All cuts are at multiples of this number, so no bucket of so many offsets is cut."""

Slice: TypeAlias = Callable[[Frame], Frame]
"""Filters a frame with a column `offset` to the rows of one slice."""


def cuts(sources: Sequence[Source], rows_at_once: int) -> tuple[int, ...]:
    """Return the offsets where slices begin, except the first. There is none if all rows fit into
    `rows_at_once`. A slice has more rows than that only if the files are not ordered."""
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
        statistics = about.row_group(number).column(column).statistics
        if statistics is not None and statistics.has_min_max:
            yield statistics.max, about.row_group(number).num_rows


def slices(engine: Engine, history: Sequence[Source]) -> list[Slice]:
    """Return the slices of a history, each of as many rows as the engine best handles at once.
    Every row is in one slice. If there are several slices, the last one has the rows without an
    offset."""
    room = engine.rows_at_once
    found = () if room is None else cuts(history, room)
    if not found:
        return [_whole]
    between = [partial(_between, engine, *edges) for edges in pairwise([None, *found, None])]
    return [*between, partial(_without_offset, engine)]


def _whole(rows: Frame) -> Frame:
    return rows


def _between(engine: Engine, first: int | None, beyond: int | None, rows: Frame) -> Frame:
    F = engine.functions
    if first is not None:
        rows = rows.where(F.col("offset") >= F.lit(first))
    if beyond is not None:
        rows = rows.where(F.col("offset") < F.lit(beyond))
    return rows


def _without_offset(engine: Engine, rows: Frame) -> Frame:
    # A separate slice: together with a range of offsets, no file's statistics would exclude rows.
    return rows.where(engine.functions.col("offset").isNull())
