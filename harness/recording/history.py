"""Writes the history while a run goes on: append-only Arrow streams, one per writer.

A `RowStream` collects rows of any number of threads in memory. Each `flush` writes them as one
record batch; the main loop of a process calls it every FLUSH_INTERVAL_S. The batch goes to the
kernel in that call. So a killed process loses at most its last interval, and a truncated stream can
be read up to its last complete batch. A long run is written in segments, which can be sealed while
the run goes on.

`HistoryWriter` is the row stream of the operations. It gives each operation a number that is unique
in the run, and writes a `start` and an `end` row for every client. A client without an `end` row
was interrupted, and the outcome of its last operations is unknown. Judging, and sealing streams
into Parquet, are left to other modules.
"""

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc

from checkers.history.history import HISTORY, OP_BITS
from checkers.history.segments import segment_path

FLUSH_INTERVAL_S: Final = 0.25
FLUSH_ROWS: Final = 5_000
"""Rows after which a busy writer should flush before the interval is over."""


Row = tuple[Any, ...]


class RowStream:
    """Writes rows of `schema` into an Arrow IPC stream at `path`, which must not exist yet.

    With `rotate_s`, a flush begins a new segment when the current one is that old. The segments are
    named after `path` and their number. All but the last are complete.
    """

    def __init__(self, path: Path, schema: pa.Schema, *, rotate_s: float | None = None) -> None:
        self._base_path = path
        self._rotate_ns = None if rotate_s is None else round(rotate_s * 1_000_000_000)
        self._segment = 0
        self.path = path if rotate_s is None else segment_path(path, 0)
        self.schema = schema
        self._rows: deque[tuple[Any, ...]] = deque()
        # A deque's append and popleft are atomic: threads append while another one flushes.
        self.append = self._rows.append
        self._flushing = threading.Lock()
        self._open()

    def _open(self) -> None:
        self._opened_ns = time.monotonic_ns()
        self._file = pa.OSFile(str(self.path), "wb")
        self._stream = pa.ipc.new_stream(self._file, self.schema)

    def _end(self) -> None:
        self._stream.close()
        self._file.close()

    def __len__(self) -> int:
        """Return how many rows are not flushed yet."""
        return len(self._rows)

    def append_named(self, **columns: Any) -> None:
        """Append a row by column names; the columns not named are null."""
        unknown = columns.keys() - set(self.schema.names)
        if unknown:
            raise ValueError(f"no such column: {', '.join(sorted(unknown))}")
        self.append(tuple(columns.get(name) for name in self.schema.names))

    def flush(self) -> int:
        """Write the appended rows as one batch, then begin a new segment when it is due.

        Returns the number of rows. Any thread may call it.
        """
        with self._flushing:
            count = self._write_batch()
            if self._rotate_ns is not None and not self._file.closed:
                self._rotate_when_due(self._rotate_ns)
            return count

    def _rotate_when_due(self, rotate_ns: int) -> None:
        if time.monotonic_ns() - self._opened_ns < rotate_ns:
            return
        self._end()
        self._segment += 1
        self.path = segment_path(self._base_path, self._segment)
        self._open()

    def _write_batch(self) -> int:
        count = len(self._rows)
        if count == 0:
            return 0
        pop = self._rows.popleft
        columns = zip(*[pop() for _ in range(count)], strict=True)
        arrays = [
            pa.array(column, type=field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        self._stream.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
        return count

    def close(self) -> None:
        """Flush, and write the end of the stream. Safe to call twice."""
        with self._flushing:
            if not self._file.closed:
                self._write_batch()
                self._end()


class OperationWriter(ABC):
    """Turns operations of clients into rows of HISTORY, and numbers the operations.

    `writer_id` is unique in the run and owns the operation numbers from `writer_id << 40` on. Every
    number that is taken must be recorded: the checkers report a missing number as an operation that
    the history lost. Subclasses decide where rows are kept.
    """

    append: Callable[[Row], None]

    def __init__(self, writer_id: int) -> None:
        self.next_op = itertools.count(writer_id << OP_BITS).__next__

    @abstractmethod
    def now_ns(self) -> int:
        """Return ns since the start of the run."""

    @abstractmethod
    def flush(self) -> int:
        """Move the appended rows to where they are safe; return how many."""

    def record(
        self,
        op: int,
        client: int,
        f: str,
        type_: str,
        invoke_ns: int,
        complete_ns: int | None,
        topic: str | None = None,
        partition: int | None = None,
        value: int | None = None,
        offset: int | None = None,
        leader_epoch: int | None = None,
        acks: int | None = None,
        node: int | None = None,
        error: str | None = None,
        *,
        txn: int | None = None,
        group: str | None = None,
        generation: int | None = None,
        transactional_id: str | None = None,
        copies: int | None = None,
        isolation: int | None = None,
        key: int | None = None,
    ) -> None:
        """Append one row. Negative offsets and epochs mean "unknown" and become null."""
        if offset is not None and offset < 0:
            offset = None
        if leader_epoch is not None and leader_epoch < 0:
            leader_epoch = None
        self.append(
            (
                op, client, f, type_, invoke_ns, complete_ns, topic, partition, value, offset,
                leader_epoch, acks, node, txn, group, error, generation, transactional_id, copies,
                isolation, key,
            )
        )  # fmt: skip

    def start(self, client: int) -> None:
        """Write the client's first row. It is flushed before the client can have had any effect."""
        now = self.now_ns()
        self.record(self.next_op(), client, "start", "ok", now, now)
        self.flush()

    def end(self, client: int) -> None:
        """Write the client's last row: the history has everything that it did."""
        now = self.now_ns()
        self.record(self.next_op(), client, "end", "ok", now, now)


class HistoryWriter(RowStream, OperationWriter):
    """Writes the operations of one process.

    `base_ns` is the run's start on CLOCK_MONOTONIC; recorded times are ns since then. For
    `rotate_s` see `RowStream`.
    """

    def __init__(
        self, path: Path, *, writer_id: int, base_ns: int, rotate_s: float | None = None
    ) -> None:
        RowStream.__init__(self, path, HISTORY, rotate_s=rotate_s)
        OperationWriter.__init__(self, writer_id)
        self._base_ns = base_ns

    def now_ns(self) -> int:
        """Return ns since the start of the run."""
        return time.monotonic_ns() - self._base_ns
