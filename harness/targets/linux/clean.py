"""Undoing what dead runs left behind: namespaces, interfaces, mounts, loop devices, processes.

Only what a run's journal names is touched, and only when nobody holds that journal: a run whose
harness is alive is left alone, and so is a detached cluster with a living process. What was
stored (history, logs, images) stays. Safe to repeat; what cannot be undone is said and kept for
the next time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.recording import journal
from harness.recording.journal import Journal, JournalHeld, Record
from harness.targets.linux import processes
from harness.targets.linux.undo import UNDO, Undo, process_of, undo_records


class Outcome(StrEnum):
    """What became of one run's leftovers."""

    UNDONE = "undone"
    ALIVE = "alive"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """One unfinished run that was found, and what was done about it."""

    journal: Path
    run_id: str
    """Empty when the journal does not say."""
    outcome: Outcome
    removed: tuple[str, ...] = ()
    """What existed and was removed, in words."""
    problems: tuple[str, ...] = ()
    """What could not be undone, and why."""


def undo(
    path: Path,
    *,
    registry: Path | None = None,
    even_detached: bool = True,
    handlers: Mapping[str, Undo] = UNDO,
) -> Cleaned:
    """Undo one run by its journal. A second time finds nothing to do. Raises OSError.

    handlers: how each kind of record is undone.
    """
    try:
        with Journal.take_over(path, registry=registry) as held:
            records = held.records()
            run_id = _run_id(records)
            if not even_detached and lives_detached(records):
                return Cleaned(journal=path, run_id=run_id, outcome=Outcome.ALIVE)
            removed, problems = undo_records(records, handlers)
            if not problems:
                held.finish()
            return Cleaned(
                journal=path,
                run_id=run_id,
                outcome=Outcome.FAILED if problems else Outcome.UNDONE,
                removed=tuple(removed),
                problems=tuple(problems),
            )
    except JournalHeld:
        return Cleaned(
            journal=path, run_id=_run_id(journal.known_of(path, registry)), outcome=Outcome.ALIVE
        )


def clean(
    store: Path | None = None,
    *,
    everything: bool = False,
    registry: Path | None = None,
    handlers: Mapping[str, Undo] = UNDO,
) -> list[Cleaned]:
    """Undo every unfinished run that the registry or the store (store/PLAN/TIME/) knows of.

    `everything` takes down living detached clusters too, never a run whose harness is alive.
    """
    known = journal.registered(registry)
    stored = sorted(store.glob("*/*/journal.jsonl")) if store is not None else []
    results = []
    for path in dict.fromkeys((*known, *(path.resolve() for path in stored))):
        try:
            if not journal.is_there(path, registry):
                results.append(_orphan(path, registry))
            elif path in known or not _is_finished(path):
                results.append(
                    undo(path, registry=registry, even_detached=everything, handlers=handlers)
                )
        except OSError as error:
            problem = f"{path}: {error}"
            results.append(
                Cleaned(journal=path, run_id="", outcome=Outcome.FAILED, problems=(problem,))
            )
    return results


def _orphan(path: Path, registry: Path | None) -> Cleaned:
    journal.forget(path, registry)
    problem = (
        f"{path} was deleted before its run was undone: look for namespaces hw-* in /run/netns "
        "and for processes in them"
    )
    return Cleaned(journal=path, run_id="", outcome=Outcome.FAILED, problems=(problem,))


def _is_finished(path: Path) -> bool:
    records = journal.read(path)
    return bool(records) and records[-1]["kind"] == journal.UNDONE


def _run_id(records: Iterable[Record]) -> str:
    return next((str(r.get("run_id", "")) for r in records if r["kind"] == journal.RUN), "")


def lives(records: Iterable[Record]) -> bool:
    """Whether a process of the run is alive."""
    return any(processes.is_alive(process_of(r)) for r in records if r["kind"] == "local.process")


def lives_detached(records: Sequence[Record]) -> bool:
    """Whether the run was made to outlive its harness, and does."""
    detached = any(
        r["kind"] == journal.DETACHED or (r["kind"] == journal.RUN and r.get("detached"))
        for r in records
    )
    return detached and lives(records)
