"""Reads the new rows of a table while a run goes on. Each row is returned once.

A table is one stream, or segments in a folder of its own (`checkers.history.segments`). When a
stream is sealed between two reads, the position stays valid: the sealed file has the same rows in
the same order.
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
from harness.recording.tail import StreamTail

READ_BYTES: Final = 16 << 20
"""How much of a stream is read at a time."""


class Cursor:
    """The position of a reader in table `name` (of SCHEMAS) of a run. The table has one writer."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self._whole = run_dir / name
        self._segments = run_dir / name / name
        self._schema = SCHEMAS[name]
        self._number = 0
        self._rows_read = 0
        self._tail = StreamTail()
        self._followed = False

    def read_new(self) -> Iterator[pa.Table]:
        """Yield the rows that were recorded since the last call, a part at a time.

        Raises HistoryError for a segment that is missing or damaged.
        """
        while (path := self._file(self._number)) is not None:
            # Asked before reading: a stream that is followed has ended and is complete.
            followed = self._file(self._number + 1) is not None
            if path.suffix == SEALED:
                yield self._sealed(path)
            else:
                try:
                    yield from self._streamed(path, followed=followed)
                except FileNotFoundError:
                    continue  # it was sealed meanwhile
                if not followed:
                    return
            self._number, self._rows_read, self._tail = self._number + 1, 0, StreamTail()
        self._refuse_gaps()

    def _file(self, number: int) -> Path | None:
        """Return the file of a segment. A table in one stream counts as the first segment."""
        stems = [segment_path(self._segments, number), *([self._whole] if number == 0 else ())]
        files = [stem.with_name(stem.name + kind) for stem in stems for kind in (STREAM, SEALED)]
        # While a segment is being sealed, both files exist for a moment; never neither of them.
        return next((path for path in files if path.is_file()), None)

    def _sealed(self, path: Path) -> pa.Table:
        try:
            found = arrow.read(path)
            rows = conform(found, self._schema)
        except (pa.ArrowException, OSError) as error:
            raise HistoryError(f"{path}: is no readable Parquet file: {error}") from error
        self._followed = FOLLOWED.items() <= (found.schema.metadata or {}).items()
        return rows.slice(self._rows_read)

    def _streamed(self, path: Path, *, followed: bool) -> Iterator[pa.Table]:
        with path.open("rb") as file:
            try:
                while batches := self._tail.read_new(file, path.stat().st_size, READ_BYTES):
                    rows = conform(pa.Table.from_batches(batches), self._schema)
                    self._rows_read += rows.num_rows
                    yield rows
            except ValueError as error:
                raise HistoryError(f"{path}: {error}") from error
        if followed:
            with suppress(FileNotFoundError):
                if not ends_in_order(path):
                    raise HistoryError(segment_torn(path))

    def _refuse_gaps(self) -> None:
        folder = self._segments.parent
        present = [segment_of(path.stem) for path in folder.iterdir()] if folder.is_dir() else []
        later = any(segment is not None and segment[1] > self._number for segment in present)
        if later or (self._followed and self._file(self._number) is None):
            missing = segment_path(self._segments, self._number)
            raise HistoryError(segment_missing(f"{missing}{SEALED}"))
