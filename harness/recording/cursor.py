"""The rows of a table since the last look, while a run goes on: each is given once.

A table is one stream, or segments in a folder of its own (`checkers.history.segments`). What was
read of a stream counts when it is sealed meanwhile: its file has the same rows in the same order.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from checkers.history import arrow
from checkers.history.history import FOLLOWED, SCHEMAS, HistoryError, conform, ends_in_order
from checkers.history.segments import (
    SEALED,
    STREAM,
    segment_missing,
    segment_of,
    segment_path,
    segment_torn,
)
from harness.recording.tail import Tail

LOOK_BYTES: Final = 16 << 20
"""Of a stream, taken at a time."""


class Cursor:
    """How far the table `name` (of SCHEMAS) of a run that has one writer was read."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self._whole = run_dir / name
        self._segments = run_dir / name / name
        self._schema = SCHEMAS[name]
        self._number = 0
        self._taken = 0
        self._tail = Tail()
        self._followed = False

    def look(self) -> Iterator[pa.Table]:
        """What was recorded since the last look, a part at a time. Raises HistoryError for a
        segment that is missing or damaged."""
        while (path := self._file(self._number)) is not None:
            # Asked first: then the stream has ended, and all of it is there.
            followed = self._file(self._number + 1) is not None
            if path.suffix == SEALED:
                yield self._sealed(path)
            else:
                try:
                    yield from self._streamed(path, followed=followed)
                except FileNotFoundError:
                    continue  # sealed since
                if not followed:
                    return
            self._number, self._taken, self._tail = self._number + 1, 0, Tail()
        self._refuse_gaps()

    def _file(self, number: int) -> Path | None:
        """The segment of that number; a table in one stream is its own first one."""
        stems = [segment_path(self._segments, number), *([self._whole] if number == 0 else ())]
        files = [stem.with_name(stem.name + kind) for stem in stems for kind in (STREAM, SEALED)]
        # What is sealed just now is for a moment there twice, and never not at all.
        return next((path for path in files if path.is_file()), None)

    def _sealed(self, path: Path) -> pa.Table:
        try:
            found = arrow.read(path)
            rows = conform(found, self._schema)
        except (pa.ArrowException, OSError) as error:
            raise HistoryError(f"{path}: is no readable Parquet file: {error}") from error
        self._followed = FOLLOWED.items() <= (found.schema.metadata or {}).items()
        return rows.slice(self._taken)

    def _streamed(self, path: Path, *, followed: bool) -> Iterator[pa.Table]:
        with path.open("rb") as file:
            try:
                while batches := self._tail.look(file, path.stat().st_size, LOOK_BYTES):
                    rows = conform(pa.Table.from_batches(batches), self._schema)
                    self._taken += rows.num_rows
                    yield rows
            except ValueError as error:
                raise HistoryError(f"{path}: {error}") from error
        if followed:
            with suppress(FileNotFoundError):
                if not ends_in_order(path):
                    raise HistoryError(segment_torn(path))

    def _refuse_gaps(self) -> None:
        folder = self._segments.parent
        there = [segment_of(path.stem) for path in folder.iterdir()] if folder.is_dir() else []
        later = any(segment is not None and segment[1] > self._number for segment in there)
        if later or (self._followed and self._file(self._number) is None):
            missing = segment_path(self._segments, self._number)
            raise HistoryError(segment_missing(f"{missing}{SEALED}"))
