"""All runs of a store. Each is read once and cached until one of its files changes.

A run is a directory with a run.json, at any depth (`<plan>/<time>`, and below nights). Directories
inside a run are not searched. A run goes on as long as a harness holds the lock on its journal;
/proc/locks shows the lock without touching it. A canary's run has the state that its night gave it.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from checkers.history.segments import STREAM
from harness.nightly.results import Outcome
from harness.serve.store_files import Entry, Place, StoreFileError, StoreFiles
from harness.serve.summaries import (
    LONGEST_SENTENCE,
    Files,
    Json,
    RunSummary,
    State,
    faults_of_journal,
    summarize,
)

RUN: Final = "run.json"
JOURNAL: Final = "journal.jsonl"
SCHEDULE: Final = "schedule.json"
DEEPEST: Final = 8
DIRECTORIES: Final = 200_000
"""Directories that one search opens. With more, the page says that the list is not complete."""
RUNS: Final = 50_000
CACHED: Final = 20_000
JSON_BYTES: Final = 64 << 20
FAULTS: Final = 20_000
NIGHT_DEPTH, TRIAL_DEPTH = 3, 4
"""In nightly/<suite>/<night>/runs/<trial>/<plan>/<time>: the length of a night's place, and the
index of the trial."""

FAULTS_FILE: Final = "faults.parquet"

_FILES: Final = (
    RUN, "plan.json", "verdict.json", FAULTS_FILE, "faults", JOURNAL, "report.html", SCHEDULE,
)  # fmt: skip
_COLUMNS: Final = ["fault", "label", "started_ns", "healed_ns", "took_effect", "effect", "error"]

Stamp = tuple[tuple[str, int, int, int], ...]


class Catalogue:
    """The runs of a store. Safe to use from several threads."""

    def __init__(self, store_files: StoreFiles, locks: Path = Path("/proc/locks")) -> None:
        self._store = store_files
        self._locks = locks
        self._known: OrderedDict[Place, tuple[Stamp, RunSummary]] = OrderedDict()
        self._mutex = threading.Lock()

    def runs(self) -> tuple[list[RunSummary], bool]:
        """Return the runs, the newest first, and whether the list is complete."""
        found: list[RunSummary] = []
        held, whole = self._held(), True
        nights: dict[Place, Mapping[str, Json]] = {}
        for place, entries in self._walk():
            if entries is None or len(found) >= RUNS:
                whole = False
                break
            found.append(self._as_of_night(self._summary(place, entries, held), nights))
        found.sort(key=lambda run: (run.started_ns or 0, run.place), reverse=True)
        return found, whole

    def run(self, place: Place) -> RunSummary:
        """Return one run. Raises StoreFileError when there is none."""
        entries = self._store.entries(place)
        if not any(entry.name == RUN and entry.kind == "file" for entry in entries):
            raise StoreFileError(f"{'/'.join(place)} is no run")
        return self._as_of_night(self._summary(place, entries, self._held()), {})

    def files(self, place: Place) -> Files:
        """Return the parts of a run. Unreadable parts are empty."""
        names = {entry.name for entry in self._store.entries(place) if entry.kind == "file"}
        return self._files(place, names)

    def _walk(self) -> Iterator[tuple[Place, Sequence[Entry] | None]]:
        """Yield each run with its entries; None for the entries when the search gave up."""
        waiting: list[Place] = [()]
        for _ in range(DIRECTORIES):
            if not waiting:
                return
            place = waiting.pop()
            try:
                entries = self._store.entries(place)
            except StoreFileError:
                continue  # removed meanwhile, or unreadable
            if any(entry.name == RUN and entry.kind == "file" for entry in entries):
                yield place, entries
            elif len(place) < DEEPEST:
                waiting += [
                    (*place, entry.name)
                    for entry in entries
                    if entry.kind == "directory" and not entry.name.startswith(".")
                ]
        yield (), None

    def _summary(self, place: Place, entries: Sequence[Entry], held: frozenset[int]) -> RunSummary:
        stamp = tuple(
            (e.name, e.inode, e.size_bytes, e.modified_ns) for e in entries if e.name in _FILES
        )
        alive = any(entry.name == JOURNAL and entry.inode in held for entry in entries)
        with self._mutex:
            cached = self._known.get(place)
        if cached is not None and cached[0] == stamp and not alive:
            return cached[1]
        names = {entry.name for entry in entries if entry.kind == "file"}
        made = summarize(place, self._files(place, names), alive=alive)
        if not alive:
            with self._mutex:
                self._known[place] = (stamp, made)
                self._known.move_to_end(place)
                if len(self._known) > CACHED:
                    self._known.popitem(last=False)
        return made

    def _files(self, place: Place, names: set[str]) -> Files:
        journal = self._lines((*place, JOURNAL)) if JOURNAL in names else []
        sealed = self._faults(place, names)
        return Files(
            run=self._json((*place, RUN)),
            plan=self._json((*place, "plan.json")),
            verdict=self._json((*place, "verdict.json")) if "verdict.json" in names else {},
            faults=faults_of_journal(journal) if sealed is None else sealed,
            journal=journal,
            has_report="report.html" in names,
            has_schedule=SCHEDULE in names,
        )

    def _as_of_night(self, run: RunSummary, nights: dict[Place, Mapping[str, Json]]) -> RunSummary:
        """Return a canary's run with the state that its night gave it: to be INVALID is its task.
        `nights` caches results by trial."""
        if not run.night or len(run.place) <= TRIAL_DEPTH:
            return run
        night = run.place[:NIGHT_DEPTH]
        if night not in nights:
            nights[night] = self._results(night)
        result = nights[night].get(run.place[TRIAL_DEPTH], {})
        if not result.get("canary"):
            return run
        found = result.get("outcome") == Outcome.PASSED
        if not found and result.get("outcome") != Outcome.VIOLATION:
            return run
        state = State.CANARY if found else State.MISSED
        return replace(run, state=state, sentence=str(result.get("said", ""))[:LONGEST_SENTENCE])

    def _results(self, night: Place) -> Mapping[str, Json]:
        results = (line.get("result") for line in self._lines((*night, "trials.jsonl")))
        return {
            f"{result.get('cell')}-{result.get('seed')}": result
            for result in results
            if isinstance(result, dict)
        }

    def _json(self, place: Place) -> Json:
        try:
            found = json.loads(self._store.read(place, JSON_BYTES))
        except (StoreFileError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _lines(self, place: Place) -> list[Json]:
        """Return the complete lines of a journal whose end may be cut off."""
        found: list[Json] = []
        with suppress(StoreFileError):
            for line in self._store.read(place, JSON_BYTES).splitlines():
                with suppress(ValueError, RecursionError):
                    entry = json.loads(line)
                    if isinstance(entry, dict):
                        found.append(entry)
        return found

    def _faults(self, place: Place, names: set[str]) -> list[Json] | None:
        """Return the record of faults, from one file or from segments; None before it is
        complete."""
        segments: list[Entry] = []
        with suppress(StoreFileError):
            segments = self._store.entries((*place, "faults"))
        if any(entry.name.endswith(STREAM) for entry in segments):
            return None
        files = [(*place, "faults", entry.name) for entry in segments]
        files += [(*place, FAULTS_FILE)] if FAULTS_FILE in names else []
        rows: list[Json] = []
        try:
            for each in files:
                with self._store.file(each) as file:
                    table = pyarrow.parquet.ParquetFile(file)
                    if len(rows) + table.metadata.num_rows > FAULTS:
                        return None
                    rows += table.read(columns=_COLUMNS).to_pylist()
        except (StoreFileError, pa.ArrowException, OSError, ValueError):
            return None
        return rows if files else None

    def _held(self) -> frozenset[int]:
        """Return the inodes of all files with an exclusive flock."""
        found = set()
        with suppress(OSError):
            for line in self._locks.read_text().splitlines():
                parts = line.split()
                if len(parts) >= 6 and parts[1] == "FLOCK" and parts[3] == "WRITE":
                    inode = parts[5].rpartition(":")[2]
                    if inode.isdigit():
                        found.add(int(inode))
        return frozenset(found)
