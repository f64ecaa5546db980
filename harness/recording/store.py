"""Run directories: the files of a run and how they are written.

    store/<plan>/<UTC time>/     one run
      run.json                   run id, times, versions, commit, the phases that finished
      plan.json schedule.json    written by the runner through `Run.write_json`
      history/*.arrows           streams while running; *.parquet once sealed
      cluster.parquet ...        (cluster.arrows, faults.arrows while running)
      cluster/ faults/           the same in segments, for a long run: checkers.history.segments
      nodes/<id>/                a node's configuration, log and data
    store/latest                 the run created last

A run directory can be read at every moment: files appear complete, by rename, or as streams that
may end anywhere. `seal` turns streams into Parquet. It may run any number of times, also long after
the harness was killed.

    StoreError      a directory is no run, or cannot be made one
"""

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from checkers.history.history import (
    CUT,
    FOLLOWED,
    SCHEMAS,
    HistoryError,
    conform,
    ends_in_order,
    table,
    validate,
)
from checkers.history.plan_file import digest
from checkers.history.segments import (
    SEALED,
    STREAM,
    followed_by_another,
    irregular,
    irregular_told,
    table_streams,
)
from harness.recording.history import RowStream

RUN_FILE = "run.json"
SEGMENTED = ("history", "cluster", "faults")
"""The tables that are written while a run goes on, and in segments if the run is long."""
ROW_GROUP_ROWS = 200_000
NAME_TRIES = 100


class StoreError(Exception):
    """A directory is no run, or a store cannot be written; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run directory.

    `started_wall_ns` is UTC since 1970; `base_ns` is the same moment on CLOCK_MONOTONIC, from which
    all recorded times count.
    """

    path: Path
    run_id: str
    started_wall_ns: int
    base_ns: int

    @property
    def history_dir(self) -> Path:
        """The directory in which every writer has its stream."""
        return self.path / "history"

    def node_dir(self, node: int) -> Path:
        """Return the directory of one node; make it if it is missing."""
        made = self.path / "nodes" / str(node)
        made.mkdir(parents=True, exist_ok=True)
        return made

    def now_ns(self) -> int:
        """Return ns since the start of the run. Valid only on the machine and boot that made it."""
        return time.monotonic_ns() - self.base_ns

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file of the run completely or not at all."""
        write_atomic(self.path / name, json.dumps(value, indent=2, sort_keys=True) + "\n")

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Write plan.json, and its digest into run.json."""
        self.write_json("plan.json", plan)
        self.update(plan_digest=digest(plan))

    def update(self, **fields: Any) -> None:
        """Set fields of run.json."""
        self.write_json(RUN_FILE, _read_run_file(self.path) | fields)

    def finish_phase(self, phase: str) -> None:
        """Note in run.json that a phase ended, so that an interrupted run shows how far it came."""
        finished = [*_read_run_file(self.path).get("finished", ()), phase]
        self.update(finished=finished)

    def cluster_stream(self, rotate_s: float | None = None) -> RowStream:
        """Open the stream of observations of the cluster (schema CLUSTER).

        For `rotate_s` see `RowStream`; segments have a folder of their own.
        """
        return self._stream("cluster", rotate_s)

    def faults_stream(self, rotate_s: float | None = None) -> RowStream:
        """Open the stream of faults (schema FAULTS). For `rotate_s` see `cluster_stream`."""
        return self._stream("faults", rotate_s)

    def replicas_stream(self) -> RowStream:
        """Open the stream of the batches in every replica's files (schema REPLICAS)."""
        return self._stream("replicas", None)

    def _stream(self, name: str, rotate_s: float | None) -> RowStream:
        folder = self.path if rotate_s is None else self.path / name
        folder.mkdir(exist_ok=True)
        return RowStream(folder / f"{name}{STREAM}", SCHEMAS[name], rotate_s=rotate_s)

    def write_table(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write `<name>.parquet` at once; `name` is one of checkers.history.history.SCHEMAS."""
        _write_parquet(self.path / f"{name}.parquet", table(SCHEMAS[name], rows).to_batches(), name)


def create(
    root: Path,
    plan_name: str,
    *,
    versions: Mapping[str, str],
    commit: str | None,
    run_id: str | None = None,
) -> Run:
    """Make the directory of a new run under `root` and point `root`/latest at it.

    The run gets a new id unless `run_id` is given. Raises StoreError when the store cannot be
    written.
    """
    try:
        path, wall_ns, base_ns = _new_directory(root.absolute() / plan_name)
        run = Run(
            path=path,
            run_id=uuid.uuid4().hex[:16] if run_id is None else run_id,
            started_wall_ns=wall_ns,
            base_ns=base_ns,
        )
        run.history_dir.mkdir()
        run.write_json(
            RUN_FILE,
            {
                "run_id": run.run_id,
                "started_wall_ns": wall_ns,
                "monotonic_base_ns": base_ns,
                "versions": dict(versions),
                "commit": commit,
                "finished": [],
            },
        )
        _point_latest(root.absolute(), path)
    except OSError as error:
        raise StoreError(f"cannot make a run directory under {root}: {error}") from error
    return run


def open_run(path: Path) -> Run:
    """Return the run at `path`, for example store/latest. Raises StoreError when it is no run."""
    if not path.is_dir():
        raise StoreError(
            f"{path}: no such run directory in {Path.cwd()}; the last run of a store is "
            "STORE/latest"
        )
    if (found := irregular(path)) is not None:
        raise StoreError(irregular_told(found))
    run = _read_run_file(path)
    try:
        return Run(
            path=path.resolve(),
            run_id=str(run["run_id"]),
            started_wall_ns=int(run["started_wall_ns"]),
            base_ns=int(run["monotonic_base_ns"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path / RUN_FILE}: is not of a run: {error!r} is wrong") from error


def seal(path: Path) -> list[Path]:
    """Turn every stream of a run into Parquet; return the files. Raises StoreError.

    Of a truncated stream the complete batches are kept, and the file is marked. A stream is removed
    only after its Parquet file is on disk.
    """
    open_run(path)
    made = []
    for name in SCHEMAS:
        streams = table_streams(path, name)
        ended = followed_by_another(streams)
        made += [_seal(each, SCHEMAS[name], followed=each in ended) for each in streams]
    return made


def seal_ended(run: Run) -> list[Path]:
    """Seal the segments that are complete, while the run goes on. Raises StoreError."""
    return [
        _seal(segment, SCHEMAS[name], followed=True)
        for name in SEGMENTED
        for segment in followed_by_another((run.path / name).glob(f"*{STREAM}"))
    ]


def _seal(stream: Path, schema: pa.Schema, *, followed: bool) -> Path:
    target = stream.with_suffix(SEALED)
    try:
        marks = ({} if ends_in_order(stream) else CUT) | (FOLLOWED if followed else {})
        marked = schema.with_metadata(marks) if marks else schema
        _write_parquet(target, _readable_batches(stream, schema), marked)
    except HistoryError as error:
        raise StoreError(f"cannot seal the run: {error}") from error
    stream.unlink()
    return target


def write_atomic(path: Path, text: str) -> None:
    """Replace a file by rename, after its bytes are on disk."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _read_run_file(path: Path) -> dict[str, Any]:
    runs = sorted(each.parent.name for each in path.glob(f"*/{RUN_FILE}"))
    if runs and not (path / RUN_FILE).exists():
        raise StoreError(f"{path}: is a folder of runs; the last one is {path / runs[-1]}")
    try:
        run = json.loads((path / RUN_FILE).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: is no run: {RUN_FILE} cannot be read ({error})") from error
    if not isinstance(run, dict):
        raise StoreError(f"{path / RUN_FILE}: is not of a run: expected a JSON object")
    return run


def _new_directory(parent: Path) -> tuple[Path, int, int]:
    """Make a directory that is named by the time, and return it with the time on both clocks.

    If another process has taken the name of this millisecond, a later one is tried.
    """
    for _ in range(NAME_TRIES):
        wall_ns, base_ns = time.time_ns(), time.monotonic_ns()
        stamp = datetime.fromtimestamp(wall_ns // 1_000_000 / 1000, tz=UTC)
        path = parent / f"{stamp:%Y%m%dT%H%M%S}.{stamp.microsecond // 1000:03d}Z"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            time.sleep(0.001)
        else:
            return path, wall_ns, base_ns
    raise FileExistsError(f"{path} and the names before it exist: does the clock stand still?")


def _point_latest(root: Path, path: Path) -> None:
    temporary = root / f".latest.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(path.relative_to(root))
    temporary.replace(root / "latest")


def _readable_batches(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the complete batches of a stream that may end at any byte, even in its schema."""
    with pa.OSFile(str(path), "rb") as source:
        try:
            stream = pa.ipc.open_stream(source)
        except (pa.ArrowInvalid, OSError):
            return  # it ends inside its schema, so it has no rows
        validate(stream.schema, schema, str(path))
        while True:
            try:
                batch = stream.read_next_batch()
            except (StopIteration, pa.ArrowInvalid, OSError):
                return  # the regular end, or an end inside a message
            yield from conform(pa.Table.from_batches([batch]), schema).to_batches()


def _write_parquet(path: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema | str) -> None:
    schema = SCHEMAS[schema] if isinstance(schema, str) else schema
    temporary = path.with_name(f".{path.name}.tmp")
    with pa.parquet.ParquetWriter(temporary, schema) as writer:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(each.num_rows for each in held) >= ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(held, schema))
                held = []
        writer.write_table(pa.Table.from_batches(held, schema))
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
