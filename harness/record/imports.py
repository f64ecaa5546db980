"""Run directories for histories that other tools recorded, and the rows of any for the way out.

An imported run has what any run directory has, so that `highwater check`, `report` and `elle` take
it; but no run can be made of its plan.
"""

import json
import time
import uuid
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet

from checkers.history import HISTORY, SCHEMAS, HistoryError, load_run, read_sources, table
from checkers.interchange.errors import InterchangeError
from checkers.interchange.imported import Imported, Row
from harness.record import store
from harness.record.store import RUN_FILE, Run, StoreError


def read(path: Path) -> str:
    """The text of a foreign file. Raises StoreError."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error


def write(out: Path, convert: Callable[[], Imported], where: str) -> Run:
    """Make the run directory `out`, which must not exist or be empty, of what `convert` gives.

    Raises StoreError, for a history that cannot be taken over too; then nothing is made. where: the
    file, for the message.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StoreError(f"{out}: is there already; name a directory that is not, or remove it")
    try:
        imported = convert()
    except InterchangeError as error:
        raise StoreError(f"{where}: {error}") from error
    run = Run(path=out.absolute(), run_id=uuid.uuid4().hex[:16], started_wall_ns=0, base_ns=0)
    try:
        run.history_dir.mkdir(parents=True)
        pyarrow.parquet.write_table(
            table(HISTORY, imported.history), run.history_dir / "imported.parquet"
        )
        for name in SCHEMAS:
            if name != "history":
                run.write_table(name, ())
        run.write_json("plan.json", imported.plan)
        run.write_json(
            RUN_FILE,
            {
                "run_id": run.run_id,
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
    """A stored run and all rows of its history. Raises StoreError."""
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
