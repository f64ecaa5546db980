"""From a run directory to a verdict, right after the run or years later.

Brings a directory into the state in which the checkers read it (whatever a killed harness left
running is ended, cut streams are sealed, faults that only the journal knows get their rows) and
hands it to them; the verdict comes back and is stored beside the history. Judging itself is the
checkers' business.
"""

import json
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, Literal, assert_never

import pyarrow as pa

import checkers.check
from checkers import arrow
from checkers.engine import DuckDbEngine, Engine, SparkEngine
from checkers.history import (
    FAULTS,
    SCHEMAS,
    HistoryError,
    RunSources,
    Source,
    conform,
    load_plan,
    load_run,
    read_arrow_stream,
    table,
)
from checkers.sessions import local_spark_session
from harness import clean, report
from harness.record import journal, store
from harness.record.store import Run, StoreError
from nemesis.fault import Strike

EngineName = Literal["duckdb", "spark"]

_STRIKE: Final = tuple(field.name for field in fields(Strike))

EXIT_CODES: Final[Mapping[str, int]] = {"VALID": 0, "INVALID": 1, "UNKNOWN": 2}


def check(run_dir: Path, engine: EngineName = "duckdb") -> dict[str, Any]:
    """Judge a run and store the verdict; returns the content of verdict.json.

    A run whose tables are damaged is UNKNOWN. Raises StoreError when the directory is no run, has
    no plan to judge by, or its run still goes on, and EngineError when the engine cannot start
    here.
    """
    run = prepare(run_dir)
    try:
        plan = load_plan(run.path)
    except HistoryError as error:
        raise StoreError(str(error)) from error
    try:
        with engine_named(engine, run.path) as made:
            verdict = checkers.check.check(run.path, plan, made).as_json()
    except HistoryError as error:
        verdict = checkers.check.unreadable(str(error)).as_json()
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
def engine_named(name: EngineName, run_dir: Path) -> Iterator[Engine]:
    """The engine of that name for a run, closed at the end, with Spark's session if it has one.

    Raises EngineError."""
    with ExitStack() as ends:
        engine: Engine
        match name:
            case "duckdb":
                engine = DuckDbEngine()
            case "spark":
                session = local_spark_session([run_dir])
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
    if has_ended(run_dir) or clean.lives_detached(journal.read(path)):
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
    try:
        rows = conform(arrow.read(path), FAULTS).to_pylist() if path.is_file() else []
    except (pa.ArrowException, OSError):
        return  # damaged: whoever reads it next says so
    late = _faults_of_journal(run_dir, {row["fault_id"] for row in rows})
    if late or not path.is_file():
        store.open_run(run_dir).write_table("faults", [*rows, *late])


def live_sources(run_dir: Path) -> RunSources:
    """What is recorded by now of a run that may still go on. Raises HistoryError."""
    found = load_run(run_dir)
    faults = found.faults or _streamed(run_dir, "faults")
    known: set[object] = set()
    for each in faults:
        rows = each if isinstance(each, pa.Table) else arrow.read(each)
        known |= set(rows["fault_id"].to_pylist())
    late = table(FAULTS, _faults_of_journal(run_dir, known))
    cluster = found.cluster or _streamed(run_dir, "cluster")
    return replace(found, faults=(*faults, late), cluster=cluster)


def _streamed(run_dir: Path, name: str) -> tuple[Source, ...]:
    """A table of a run as far as its stream goes."""
    stream = run_dir / f"{name}.arrows"
    return (read_arrow_stream(stream, SCHEMAS[name])[0],) if stream.is_file() else ()


def has_ended(run_dir: Path) -> bool:
    """Whether nothing more is recorded: everything of the run is undone, or it never was."""
    path = run_dir / "journal.jsonl"
    records = journal.read(path) if path.is_file() else []
    return not records or any(record["kind"] == journal.UNDONE for record in records)


def _faults_of_journal(run_dir: Path, known: Set[object]) -> list[dict[str, Any]]:
    """The rows of the faults that only the journal knows."""
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
    return list(late.values())
