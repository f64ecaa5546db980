"""Makes run directories of histories that other tools recorded, and reads rows for an export.

An imported run has the files of any run directory, so that `highwater check`, `report` and `elle`
can read it. It cannot be repeated, because its plan describes no cluster.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pyarrow.parquet

from checkers.history.history import HISTORY, SCHEMAS, HistoryError, load_run, read_sources
from checkers.history.plan_file import digest
from checkers.interchange.errors import InterchangeError
from checkers.interchange.imported import Imported, Row
from harness.recording import store
from harness.recording.store import RUN_FILE, Run, StoreError

PIECE_CHARACTERS: Final = 1 << 22
"""About how much of a text is in memory at once."""


def pieces(path: Path, on_read: Callable[[int], None]) -> Iterator[str]:
    """Yield the text of a foreign file in pieces of whole lines. Raises StoreError.

    `on_read` gets the number of characters of each piece after it was used.
    """
    if path.exists() and not path.is_file():
        raise StoreError(f"{path}: cannot be read: it is no file")
    try:
        with path.open(encoding="utf-8") as file:
            while piece := file.read(PIECE_CHARACTERS):
                piece += file.readline()
                yield piece
                on_read(len(piece))
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error


def write(out: Path, convert: Callable[[], Imported], where: str) -> Run:
    """Make the run directory `out` of what `convert` returns. `out` must be missing or empty.

    `where` names the foreign file in messages. Raises StoreError, also when the history cannot be
    converted; then nothing is written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StoreError(f"{out}: exists already; name another directory, or remove it")
    try:
        imported = convert()
    except InterchangeError as error:
        raise StoreError(f"{where}: {error}") from error
    run = Run(path=out.absolute(), run_id=uuid.uuid4().hex[:16], started_wall_ns=0, base_ns=0)
    try:
        run.history_dir.mkdir(parents=True)
        file = run.history_dir / "imported.parquet"
        with pyarrow.parquet.ParquetWriter(file, HISTORY) as writer:
            for batch in imported.batches():
                writer.write_batch(batch)
        for name in SCHEMAS:
            if name != "history":
                run.write_table(name, ())
        run.write_json("plan.json", imported.plan)
        run.write_json(
            RUN_FILE,
            {
                "run_id": run.run_id,
                "plan_digest": digest(imported.plan),
                "started_wall_ns": time.time_ns(),
                "monotonic_base_ns": 0,
                "versions": {"highwater": version("highwater")},
                "commit": None,
                "notes": [f"imported: {json.dumps(imported.plan['imported'], sort_keys=True)}"],
            },
        )
    except OSError as error:
        raise StoreError(f"cannot make a run directory at {out}: {error}") from error
    return run


def rows_of(run_dir: Path) -> tuple[Run, list[Row]]:
    """Return a stored run and all rows of its history. Raises StoreError."""
    run = store.open_run(run_dir)
    try:
        rows = read_sources(load_run(run.path).history, HISTORY)
    except HistoryError as error:
        raise StoreError(str(error)) from error
    return run, rows.to_pylist()


def save(file: Path, text: str) -> None:
    """Write a file whole. Raises StoreError."""
    try:
        store.write_atomic(file, text)
    except OSError as error:
        raise StoreError(f"{file}: cannot be written: {error}") from error
