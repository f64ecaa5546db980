"""Makes a verdict of a run directory, right after the run or years later.

First the directory is completed, so that the checkers can read it: processes of a killed harness
are ended, open streams are sealed, and faults that only the journal knows get their rows. Then the
checkers judge it, and the verdict is stored beside the history. Judging itself is left to
`checkers`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, assert_never

import checkers.check
from checkers.check import OnDetector, unobserved
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
from harness.recording.journal_faults import JournalledFaults
from harness.recording.store import Run, StoreError

EngineName = Literal["duckdb", "spark"]

EXIT_CODES: Final[Mapping[str, int]] = {"VALID": 0, "INVALID": 1, "UNKNOWN": 2}


def check(
    run_dir: Path,
    engine: EngineName = "duckdb",
    expect: Sequence[str] = (),
    on_detector: OnDetector = unobserved,
) -> dict[str, Any]:
    """Judge a run and store the verdict; return the content of verdict.json.

    `expect` holds expectations in addition to the plan's own. A run whose tables are damaged is
    UNKNOWN. Raises BadExpectation; StoreError when the directory is no run, has no plan, or its run
    still goes on; and EngineError when the engine cannot start here.
    """
    more = read(expect)
    run = complete_run(run_dir)
    try:
        plan = load_plan(run.path)
    except HistoryError as error:
        raise StoreError(str(error)) from error
    plan = {
        **plan,
        "bounds": None,
        "expect": [each.text for each in (*of_plan(plan), *more)],
    }
    try:
        with open_engine(engine, run.path) as made:
            verdict = checkers.check.check(run.path, plan, made, on_detector=on_detector).as_json()
    except HistoryError as error:
        verdict = checkers.check.unreadable(str(error), plan).as_json()
    if "control_plane" in plan:
        verdict["control_plane"] = plan["control_plane"]
    run.write_json("verdict.json", verdict)
    return verdict


def complete_run(run_dir: Path) -> Run:
    """Complete a run directory so that the checkers can read it.

    Raises StoreError when the directory is no run, or its run still goes on.
    """
    run = store.open_run(run_dir)
    _end_leftovers(run.path)
    store.seal(run.path)
    _complete_faults(run.path)
    return run


def exit_code(verdict: Mapping[str, Any]) -> int:
    """Return the exit code of a verdict.json.

    1: the contract is violated or an expectation surely failed. 2: one of them is undecided.
    """
    outcomes = {row["outcome"] for row in verdict.get("expectations") or ()}
    if verdict["verdict"] == "INVALID" or "failed" in outcomes:
        return EXIT_CODES["INVALID"]
    return EXIT_CODES["UNKNOWN" if "unknown" in outcomes else verdict["verdict"]]


def count_forbidden(verdict: Mapping[str, Any]) -> dict[str, int]:
    """Return how many forbidden anomalies a verdict.json has, by kind."""
    found: dict[str, int] = {}
    for anomaly in verdict["anomalies"]:
        if anomaly["judgement"] == "forbidden":
            found[anomaly["kind"]] = found.get(anomaly["kind"], 0) + anomaly["count"]
    return found


@contextmanager
def open_engine(name: EngineName, run_dir: Path) -> Iterator[Engine]:
    """Open the engine of that name for a run. It is closed at the end, and so is Spark's session.

    Raises EngineError.
    """
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
    """Write the report of a judged run; return its path. Raises StoreError without a verdict."""
    from harness.reports import page  # slow to import; a verdict does not need it

    run = store.open_run(run_dir)
    if not (run.path / "verdict.json").is_file():
        raise StoreError(f"{run_dir}: is not judged yet; run `highwater check {run_dir}` first")
    return page.write_report(run.path)


def write_report_or_warn(run_dir: Path, warn: Callable[[str], None]) -> Path | None:
    """Write the report of a run that was just judged; return its path.

    If that fails, `warn` of it and return None: the verdict is valid without a report.
    """
    try:
        return write_report(run_dir)
    except Exception as error:
        warn(f"the report of {run_dir} could not be written ({type(error).__name__}: {error})")
        return None


def _end_leftovers(run_dir: Path) -> None:
    """End the processes that a killed harness left and that still write into the run.

    A detached cluster writes nothing more into it and stays.
    """
    path = run_dir / "journal.jsonl"
    if journal.has_ended(path):
        return
    # Slow to import, and seldom needed: most runs have ended.
    from harness.targets import clean
    from harness.targets.linux.clean import CleanOutcome, is_detached_and_alive

    if is_detached_and_alive(journal.read(path)):
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
    """Write a row for every fault of the journal: a killed harness wrote only the healed ones."""
    path = run_dir / "faults.parquet"
    try:
        found = load_table(run_dir, "faults")
        rows = read_sources([path] if path.is_file() else [], FAULTS).to_pylist()
        late = _late_faults(run_dir, found)
    except HistoryError:
        return  # it is damaged; the next reader reports that
    if late or not found:
        store.open_run(run_dir).write_table("faults", [*rows, *late])


def current_sources(run_dir: Path) -> RunSources:
    """Return everything that is recorded of a run by now, sealed or not. Raises HistoryError."""
    found = load_run(run_dir)
    return replace(
        found, faults=(*found.faults, table(FAULTS, _late_faults(run_dir, found.faults)))
    )


def _late_faults(run_dir: Path, recorded: Iterable[Source]) -> list[dict[str, Any]]:
    """Return the rows of the faults that only the journal knows. Raises HistoryError."""
    path = run_dir / "journal.jsonl"
    late = JournalledFaults()
    late.add(journal.read(path) if path.is_file() else ())
    late.remove(read_sources(recorded, FAULTS)["fault_id"].to_pylist())
    return list(late.rows())
