"""Remove what dead runs left behind: namespaces, interfaces, mounts, loop devices, processes.

Only objects that a run's journal names are removed, and only if no process holds the journal. A run
whose harness is alive is left alone, and so is a detached cluster with a running process. Stored
files (history, logs, images) stay. Cleaning may be repeated. An object that cannot be removed is
reported, and is tried again the next time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.recording import journal
from harness.recording.journal import Journal, JournalHeld, Record
from harness.targets.linux import processes
from harness.targets.linux.undo import UNDO, Undo, process_of, undo_records


class CleanOutcome(StrEnum):
    """The result of cleaning one run."""

    UNDONE = "undone"
    ALIVE = "alive"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedRun:
    """One unfinished run, and what was removed of it."""

    journal: Path
    run_id: str
    """Empty when the journal does not name it."""
    outcome: CleanOutcome
    removed: tuple[str, ...] = ()
    """The objects that existed and were removed, in words."""
    problems: tuple[str, ...] = ()
    """The objects that could not be removed, and why."""


def undo(
    path: Path,
    *,
    registry: Path | None = None,
    even_detached: bool = True,
    handlers: Mapping[str, Undo] = UNDO,
) -> CleanedRun:
    """Undo one run by its journal; a second call finds nothing to do. Raises OSError.

    `handlers` maps each kind of record to the function that undoes it.
    """
    records = journal.read_or_copy(path, registry)
    if not even_detached and is_detached_and_alive(records):  # without a lock: others may want it
        return CleanedRun(journal=path, run_id=_run_id(records), outcome=CleanOutcome.ALIVE)
    try:
        with Journal.take_over(path, registry=registry) as held:
            records = held.records()
            run_id = _run_id(records)
            if not even_detached and is_detached_and_alive(records):
                return CleanedRun(journal=path, run_id=run_id, outcome=CleanOutcome.ALIVE)
            removed, problems = undo_records(records, handlers)
            if not problems:
                held.finish()
            return CleanedRun(
                journal=path,
                run_id=run_id,
                outcome=CleanOutcome.FAILED if problems else CleanOutcome.UNDONE,
                removed=tuple(removed),
                problems=tuple(problems),
            )
    except JournalHeld:
        return CleanedRun(
            journal=path,
            run_id=_run_id(journal.read_or_copy(path, registry)),
            outcome=CleanOutcome.ALIVE,
        )


def clean(
    store: Path | None = None,
    *,
    everything: bool = False,
    registry: Path | None = None,
    handlers: Mapping[str, Undo] = UNDO,
) -> list[CleanedRun]:
    """Undo every unfinished run in the registry or in the store (store/PLAN/TIME/).

    `everything` also removes running detached clusters, but never a run whose harness is alive.
    """
    known = journal.registered(registry)
    stored = sorted(store.glob("*/*/journal.jsonl")) if store is not None else []
    results = []
    for path in dict.fromkeys((*known, *(path.resolve() for path in stored))):
        try:
            if not journal.exists(path, registry):
                results.append(_orphan(path, registry))
            elif path in known or not _is_finished(path):
                results.append(
                    undo(path, registry=registry, even_detached=everything, handlers=handlers)
                )
        except OSError as error:
            results.append(_failed(path, f"{path}: {error}"))
    return results


def _failed(path: Path, problem: str) -> CleanedRun:
    return CleanedRun(journal=path, run_id="", outcome=CleanOutcome.FAILED, problems=(problem,))


def _orphan(path: Path, registry: Path | None) -> CleanedRun:
    journal.unregister(path, registry)
    problem = (
        f"{path} was deleted before its run was undone, so its leftovers are unknown: look for "
        "namespaces hw-* in /run/netns, and for processes in them (`ip netns pids NAME`)"
    )
    return _failed(path, problem)


def _is_finished(path: Path) -> bool:
    records = journal.read(path)
    return bool(records) and records[-1]["kind"] == journal.UNDONE


def _run_id(records: Iterable[Record]) -> str:
    return next((str(r.get("run_id", "")) for r in records if r["kind"] == journal.RUN), "")


def has_living_process(records: Iterable[Record]) -> bool:
    """Whether a process of the run is running."""
    return any(processes.is_alive(process_of(r)) for r in records if r["kind"] == "local.process")


def is_detached_and_alive(records: Sequence[Record]) -> bool:
    """Whether the run is a detached cluster with a running process."""
    return is_detached(records) and has_living_process(records)


def is_detached(records: Iterable[Record]) -> bool:
    """Whether the run is a detached cluster."""
    return any(
        r["kind"] == journal.DETACHED or (r["kind"] == journal.RUN and r.get("detached"))
        for r in records
    )
