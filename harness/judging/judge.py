"""From a run directory to a verdict, right after the run or years later.

Brings a directory into the state in which the checkers read it (whatever a killed harness left
running is ended, cut streams are sealed, faults that only the journal knows get their rows) and
hands it to them; the verdict comes back and is stored beside the history. Judging itself is the
checkers' business.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, assert_never

import checkers.check
from checkers.engines.engine import DuckDbEngine, Engine, SparkEngine
from checkers.engines.spark_sessions import local_spark_session
from checkers.expectations import of_plan, read
from checkers.history.history import (
    FAULTS,
    HistoryError,
    RunSources,
    Source,
    load_plan,
    load_run,
    load_table,
    read_sources,
    table,
)
from harness.recording import journal, store
from harness.recording.journal_faults import Journalled
from harness.recording.store import Run, StoreError
from harness.reports import page
from harness.targets import clean
from harness.targets.linux.clean import CleanOutcome, is_detached_and_alive

EngineName = Literal["duckdb", "spark"]

EXIT_CODES: Final[Mapping[str, int]] = {"VALID": 0, "INVALID": 1, "UNKNOWN": 2}


def check(
    run_dir: Path, engine: EngineName = "duckdb", expect: Sequence[str] = ()
) -> dict[str, Any]:
    """Judge a run and store the verdict; returns the content of verdict.json.

    expect: what is expected of it beside the plan's own expectations.

    A run whose tables are damaged is UNKNOWN. Raises BadExpectation, StoreError when the directory
    is no run, has no plan to judge by, or its run still goes on, and EngineError when the engine
    cannot start here.
    """
    asked = read(expect)
    run = prepare(run_dir)
    try:
        plan = load_plan(run.path)
    except HistoryError as error:
        raise StoreError(str(error)) from error
    plan = {
        **plan,
        "bounds": None,
        "expect": [each.text for each in (*of_plan(plan), *asked)],
    }
    try:
        with engine_named(engine, run.path) as made:
            verdict = checkers.check.check(run.path, plan, made).as_json()
    except HistoryError as error:
        verdict = checkers.check.unreadable(str(error), plan).as_json()
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


def exit_code(verdict: Mapping[str, Any]) -> int:
    """Of a verdict.json: 1 where the contract is broken or an expectation surely failed, 2 where
    one of them was not decided."""
    outcomes = {row["outcome"] for row in verdict.get("expectations") or ()}
    if verdict["verdict"] == "INVALID" or "failed" in outcomes:
        return EXIT_CODES["INVALID"]
    return EXIT_CODES["UNKNOWN" if "unknown" in outcomes else verdict["verdict"]]


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
    return page.write_report(run.path)


def report_beside(run_dir: Path, say: Callable[[str], None]) -> Path | None:
    """The report of a run that was just judged; None where it cannot be written, and `say` why:
    the verdict stands without it, and must not be hidden by it."""
    try:
        return write_report(run_dir)
    except Exception as error:
        say(f"the report of {run_dir} could not be written ({type(error).__name__}: {error})")
        return None


def _end_leftovers(run_dir: Path) -> None:
    """End what still writes into the run: nothing, unless its harness was killed. A cluster that
    was left for a look writes nothing more into it."""
    path = run_dir / "journal.jsonl"
    if has_ended(run_dir) or is_detached_and_alive(journal.read(path)):
        return
    cleaned = clean.undo(path)
    match cleaned.outcome:
        case CleanOutcome.ALIVE:
            raise StoreError(f"{run_dir}: the run still goes on; wait for its end, or stop it")
        case CleanOutcome.FAILED:
            problems = "; ".join(cleaned.problems)
            raise StoreError(f"{run_dir}: what the run left behind cannot be removed: {problems}")
        case CleanOutcome.UNDONE:
            return


def _complete_faults(run_dir: Path) -> None:
    """Give every fault of the journal its row; a killed harness wrote only those that were over."""
    path = run_dir / "faults.parquet"
    try:
        found = load_table(run_dir, "faults")
        rows = read_sources([path] if path.is_file() else [], FAULTS).to_pylist()
        late = _late_faults(run_dir, found)
    except HistoryError:
        return  # damaged: whoever reads it next says so
    if late or not found:
        store.open_run(run_dir).write_table("faults", [*rows, *late])


def live_sources(run_dir: Path) -> RunSources:
    """What is recorded of a run by now, sealed or not. Raises HistoryError."""
    found = load_run(run_dir)
    return replace(
        found, faults=(*found.faults, table(FAULTS, _late_faults(run_dir, found.faults)))
    )


def _late_faults(run_dir: Path, recorded: Iterable[Source]) -> list[dict[str, Any]]:
    """The rows of the faults that only the journal knows. Raises HistoryError."""
    path = run_dir / "journal.jsonl"
    late = Journalled()
    late.take(journal.read(path) if path.is_file() else ())
    late.forget(read_sources(recorded, FAULTS)["fault_id"].to_pylist())
    return list(late.rows())


def has_ended(run_dir: Path) -> bool:
    """Whether nothing more is recorded: everything of the run is undone, or it never was."""
    path = run_dir / "journal.jsonl"
    records = journal.read(path) if path.is_file() else []
    return not records or any(record["kind"] == journal.UNDONE for record in records)
