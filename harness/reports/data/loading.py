"""Reads a run directory as far as possible, and says in words what is missing.

Every run gets a report, also a run whose harness was killed or whose files are damaged: a part that
cannot be read becomes a sentence in `missing`, never an error. Secrets are removed from what is
read. The rows of the tables are not read here.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkers.history.history import SCHEMAS, HistoryError, RunSources, Source, load_run
from harness.reports.redaction import redacted

Json = dict[str, Any]

_NOTHING = RunSources(history=(), cluster=(), faults=(), replicas=(), replica_ends=())

_LACKS = {
    "history": "No history is stored: what the clients did is not known, and there are no figures "
    "of latency and throughput.",
    "faults": "The record of faults (faults.parquet) is missing: the run ended before it was "
    "written, so the page shows no faults.",
    "cluster": "The record of the cluster (cluster.parquet) is missing: leaders and their changes "
    "are not shown.",
    "replicas": "The record of the replicas' files (replicas.parquet) is missing: their contents "
    "at the end of the run are not shown.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """The readable parts of one run. An unreadable JSON file is an empty dict and is in
    `missing`."""

    run_dir: Path
    plan: Json
    run: Json
    verdict: Json
    tables: Mapping[str, tuple[Source, ...]]
    """By the names of checkers.history.history.SCHEMAS; empty without stored rows."""
    missing: tuple[str, ...]
    notes: tuple[str, ...]
    """Notes of the run itself: failures, faults that were left out, what did not settle."""

    def without_tables(self, why: str) -> "StoredRun":
        """Return the run without its tables, which turned out to be damaged inside."""
        lack = f"The recorded tables cannot be read: {why}."
        tables: dict[str, tuple[Source, ...]] = dict.fromkeys(self.tables, ())
        return replace(self, tables=tables, missing=(*self.missing, lack))


def directory_of(run_dir: Path) -> str:
    """Return the run's directory as <plan>/<time>, without the path of this machine's store."""
    run_dir = run_dir.resolve()
    return f"{run_dir.parent.name}/{run_dir.name}"


def load(run_dir: Path) -> StoredRun:
    """Read the parts of a run. Missing or damaged parts raise nothing."""
    missing: list[str] = []
    verdict = _read_json(
        run_dir / "verdict.json",
        "The run has not been judged",
        f"highwater check {directory_of(run_dir)} judges it",
        missing,
    )
    plan = _read_json(
        run_dir / "plan.json",
        "The plan is missing",
        "what the run was supposed to do is not known",
        missing,
    )
    run = _read_json(
        run_dir / "run.json",
        "The run's own record is missing",
        "its start and its versions are not known",
        missing,
    )
    sources = _NOTHING
    try:
        sources = load_run(run_dir)
    except HistoryError as error:
        if plan:  # a missing plan is in `missing` already
            missing.append(f"The recorded tables cannot be read: {error}.")
    tables = {name: getattr(sources, name) for name in SCHEMAS}
    missing.extend(text for name, text in _LACKS.items() if name in sources.missing)
    if sources.cut:
        many = f"{len(sources.cut)} of the clients' histories were" if len(sources.cut) > 1 else (
            "One client's history was"
        )  # fmt: skip
        missing.append(
            f"{many} cut short: the harness was killed, and the last moments are missing."
        )
    return StoredRun(
        run_dir=run_dir,
        plan=plan,
        run=run,
        verdict=verdict,
        tables=tables,
        missing=tuple(missing),
        notes=tuple(_notes(run)),
    )


def _notes(run: Json) -> Iterator[str]:
    if run.get("error"):
        yield f"The run failed in the phase {run.get('failed_phase')!r}: {run['error']}"
    for name in ("notes", "unsettled", "epoch_problems"):
        found = run.get(name)
        if isinstance(found, list):
            yield from (str(each) for each in found if str(each) not in str(run.get("error")))


def _read_json(path: Path, lack: str, consequence: str, missing: list[str]) -> Json:
    try:
        found = json.loads(path.read_text())
        if isinstance(found, dict):
            return redacted(found)
        why = f"{path.name} is no JSON object"
    except FileNotFoundError:
        why = f"there is no {path.name}"
    except (OSError, ValueError, RecursionError) as error:
        why = f"{path.name} cannot be read: {error}"
    missing.append(f"{lack} ({why}); {consequence}.")
    return {}
