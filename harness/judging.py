"""From a run directory to a verdict, right after the run or years later.

Brings a directory into the state in which the checkers read it (whatever a killed harness left
running is ended, cut streams are sealed, faults that only the journal knows get their rows) and
hands it to them; the verdict comes back and is stored beside the history. Judging itself is the
checkers' business.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, Literal, assert_never

import pyarrow.parquet

import checkers.check
from checkers.engine import DuckDbEngine, Engine, SparkEngine, local_spark_session
from checkers.history import FAULTS, HistoryError
from harness import clean, journal, report, store
from harness.store import Run, StoreError
from nemesis.fault import Strike

EngineName = Literal["duckdb", "spark"]

_STRIKE: Final = tuple(field.name for field in fields(Strike))

EXIT_CODES: Final[Mapping[str, int]] = {"VALID": 0, "INVALID": 1, "UNKNOWN": 2}


def check(run_dir: Path, engine: EngineName = "duckdb") -> dict[str, Any]:
    """Judge a run and store the verdict; returns the content of verdict.json.

    Raises StoreError when the directory is no run, cannot be judged, or its run still goes on, and
    EngineError when the engine cannot start here.
    """
    run = prepare(run_dir)
    try:
        with _engine(engine) as made:
            verdict = checkers.check.check(run.path, engine=made).as_json()
    except HistoryError as error:
        raise StoreError(str(error)) from error
    run.write_json("verdict.json", verdict)
    return verdict


def prepare(run_dir: Path) -> Run:
    """Bring a run into the state in which the checkers read it. Raises StoreError when the
    directory is no run, or its run still goes on."""
    run = store.open_run(run_dir)
    _end_leftovers(run.path)
    store.seal(run.path)
    _complete_faults(run.path)
    return run


def forbidden_of(verdict: Mapping[str, Any]) -> dict[str, int]:
    """The forbidden anomalies of a verdict.json, by kind."""
    found: dict[str, int] = {}
    for anomaly in verdict["anomalies"]:
        if anomaly["judgement"] == "forbidden":
            found[anomaly["kind"]] = found.get(anomaly["kind"], 0) + anomaly["count"]
    return found


@contextmanager
def _engine(name: EngineName) -> Iterator[Engine]:
    """The engine of that name, closed at the end, with Spark's session if that was made here."""
    with ExitStack() as ends:
        engine: Engine
        match name:
            case "duckdb":
                engine = DuckDbEngine()
            case "spark":
                session = local_spark_session()
                ends.callback(session.stop)
                engine = SparkEngine(session)
            case _:
                assert_never(name)
        ends.callback(engine.close)
        yield engine


def write_report(run_dir: Path) -> Path:
    """Write the report of a judged run; returns its path. Raises StoreError without a verdict."""
    run = store.open_run(run_dir)
    if not (run.path / "verdict.json").is_file():
        raise StoreError(f"{run_dir}: is not judged yet; run `highwater check {run_dir}` first")
    return report.write_report(run.path)


def _end_leftovers(run_dir: Path) -> None:
    """End what still writes into the run: nothing, unless its harness was killed. A cluster that
    was left for a look writes nothing more into it."""
    path = run_dir / "journal.jsonl"
    records = journal.read(path) if path.is_file() else []
    ended = not records or any(r["kind"] == journal.UNDONE for r in records)
    if ended or clean.lives_detached(records):
        return
    cleaned = clean.undo(path)
    match cleaned.outcome:
        case clean.Outcome.ALIVE:
            raise StoreError(f"{run_dir}: the run still goes on; wait for its end, or stop it")
        case clean.Outcome.FAILED:
            problems = "; ".join(cleaned.problems)
            raise StoreError(f"{run_dir}: what the run left behind cannot be removed: {problems}")
        case clean.Outcome.UNDONE:
            return


def _complete_faults(run_dir: Path) -> None:
    """Give every fault of the journal its row; a killed harness wrote only those that were over."""
    path = run_dir / "faults.parquet"
    rows = pyarrow.parquet.read_table(path, schema=FAULTS).to_pylist() if path.is_file() else []
    known = {row["fault_id"] for row in rows}
    late: dict[object, dict[str, Any]] = {}
    entries = (
        journal.read(run_dir / "journal.jsonl") if (run_dir / "journal.jsonl").is_file() else ()
    )
    for entry in entries:
        number = entry.get("fault_id")
        if number in known:
            continue
        if entry["kind"] == "fault":
            aimed = {key: entry[key] for key in _STRIKE if key in entry}
            late[number] = {
                "fault_id": number,
                "fault": entry["fault"],
                "label": entry["label"],
                "targets": json.dumps(aimed, sort_keys=True),
                "planned_ms": entry["planned_ms"],
                "started_ns": entry["at_ns"],
                "took_effect": False,
                "error": "the harness ended before the fault did; this is from its journal",
            }
        elif entry["kind"] == "fault-effective" and number in late:
            late[number] |= {
                "effective_ns": entry["at_ns"],
                "effect": entry["effect"],
                "took_effect": True,
            }
        elif entry["kind"] == "fault-healed" and number in late:
            late[number] |= {"healed_ns": entry["at_ns"], "healing": entry.get("healing")}
    if late or not path.is_file():
        store.open_run(run_dir).write_table("faults", [*rows, *late.values()])
