"""All runs of a store, each read once and remembered until one of its files changes.

A run is a directory with a run.json, at any depth (`<plan>/<time>`, and below nights); nothing is
looked for inside a run. A run goes on as long as a living harness holds the lock on its journal,
which /proc/locks tells without touching the lock.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from checkers.history.segments import STREAM
from harness.serve.store_files import Entry, Place, Vault, VaultError
from harness.serve.summaries import Files, Json, Summary, faults_of_journal, summary

RUN: Final = "run.json"
JOURNAL: Final = "journal.jsonl"
DEEPEST: Final = 8
DIRECTORIES: Final = 200_000
"""Looked into by one walk; beyond, the list says that it is not whole."""
RUNS: Final = 50_000
REMEMBERED: Final = 20_000
JSON_BYTES: Final = 64 << 20
FAULTS: Final = 20_000

FAULTS_FILE: Final = "faults.parquet"

_FILES: Final = (
    RUN, "plan.json", "verdict.json", FAULTS_FILE, "faults", JOURNAL, "report.html",
)  # fmt: skip
_COLUMNS: Final = ["fault", "label", "started_ns", "healed_ns", "took_effect", "effect", "error"]

Stamp = tuple[tuple[str, int, int, int], ...]


class Catalogue:
    """The runs of a vault. Safe to use from several threads."""

    def __init__(self, vault: Vault, locks: Path = Path("/proc/locks")) -> None:
        self._vault = vault
        self._locks = locks
        self._known: OrderedDict[Place, tuple[Stamp, Summary]] = OrderedDict()
        self._mutex = threading.Lock()

    def runs(self) -> tuple[list[Summary], bool]:
        """Every run, the newest first, and whether these are all."""
        found: list[Summary] = []
        held, whole = self._held(), True
        for place, entries in self._walk():
            if entries is None or len(found) >= RUNS:
                whole = False
                break
            found.append(self._summary(place, entries, held))
        found.sort(key=lambda run: (run.started_ns or 0, run.place), reverse=True)
        return found, whole

    def run(self, place: Place) -> Summary:
        """One run. Raises VaultError where there is none."""
        entries = self._vault.entries(place)
        if not any(entry.name == RUN and entry.kind == "file" for entry in entries):
            raise VaultError(f"{'/'.join(place)} is no run")
        return self._summary(place, entries, self._held())

    def files(self, place: Place) -> Files:
        """The parts of a run; those that cannot be read are empty."""
        names = {entry.name for entry in self._vault.entries(place) if entry.kind == "file"}
        return self._files(place, names)

    def _walk(self) -> Iterator[tuple[Place, Sequence[Entry] | None]]:
        """Each run with its entries; None for them where the walk gave up."""
        waiting: list[Place] = [()]
        for _ in range(DIRECTORIES):
            if not waiting:
                return
            place = waiting.pop()
            try:
                entries = self._vault.entries(place)
            except VaultError:
                continue  # gone meanwhile, or not ours to read
            if any(entry.name == RUN and entry.kind == "file" for entry in entries):
                yield place, entries
            elif len(place) < DEEPEST:
                waiting += [
                    (*place, entry.name)
                    for entry in entries
                    if entry.kind == "directory" and not entry.name.startswith(".")
                ]
        yield (), None

    def _summary(self, place: Place, entries: Sequence[Entry], held: frozenset[int]) -> Summary:
        stamp = tuple(
            (e.name, e.inode, e.size_bytes, e.modified_ns) for e in entries if e.name in _FILES
        )
        alive = any(entry.name == JOURNAL and entry.inode in held for entry in entries)
        with self._mutex:
            remembered = self._known.get(place)
        if remembered is not None and remembered[0] == stamp and not alive:
            return remembered[1]
        names = {entry.name for entry in entries if entry.kind == "file"}
        made = summary(place, self._files(place, names), alive=alive)
        if not alive:
            with self._mutex:
                self._known[place] = (stamp, made)
                self._known.move_to_end(place)
                if len(self._known) > REMEMBERED:
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
        )

    def _json(self, place: Place) -> Json:
        try:
            found = json.loads(self._vault.read(place, JSON_BYTES))
        except (VaultError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _lines(self, place: Place) -> list[Json]:
        """The whole lines of a journal that may be cut anywhere."""
        found: list[Json] = []
        with suppress(VaultError):
            for line in self._vault.read(place, JSON_BYTES).splitlines():
                with suppress(ValueError, RecursionError):
                    entry = json.loads(line)
                    if isinstance(entry, dict):
                        found.append(entry)
        return found

    def _faults(self, place: Place, names: set[str]) -> list[Json] | None:
        """The record of faults, in one file or in segments; None before it is whole."""
        segments: list[Entry] = []
        with suppress(VaultError):
            segments = self._vault.entries((*place, "faults"))
        if any(entry.name.endswith(STREAM) for entry in segments):
            return None
        files = [(*place, "faults", entry.name) for entry in segments]
        files += [(*place, FAULTS_FILE)] if FAULTS_FILE in names else []
        rows: list[Json] = []
        try:
            for each in files:
                with self._vault.file(each) as file:
                    table = pyarrow.parquet.ParquetFile(file)
                    if len(rows) + table.metadata.num_rows > FAULTS:
                        return None
                    rows += table.read(columns=_COLUMNS).to_pylist()
        except (VaultError, pa.ArrowException, OSError, ValueError):
            return None
        return rows if files else None

    def _held(self) -> frozenset[int]:
        """The inodes of all files that somebody holds an exclusive flock on."""
        found = set()
        with suppress(OSError):
            for line in self._locks.read_text().splitlines():
                parts = line.split()
                if len(parts) >= 6 and parts[1] == "FLOCK" and parts[3] == "WRITE":
                    inode = parts[5].rpartition(":")[2]
                    if inode.isdigit():
                        found.add(int(inode))
        return frozenset(found)
