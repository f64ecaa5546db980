"""The present state of a run that goes on, from the files that it has written so far.

Each stream is read from the position of the last snapshot on, at most SNAPSHOT_BYTES per snapshot.
A run whose first snapshot is late is caught up over several snapshots, and the page says so. A
segment that was sealed meanwhile is counted from its Parquet file.
"""

import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet

from checkers.history.segments import SEALED, STREAM
from harness.plans.plan import acks_name
from harness.recording.tail import StreamTail
from harness.reports.redaction import redacted
from harness.serve.store_files import Entry, Place, StoreFileError, StoreFiles
from harness.serve.summaries import Files, RunSummary

SNAPSHOT_BYTES: Final = 32 << 20
RUNS: Final = 8
"""Runs whose counts are kept."""
SECONDS: Final = 60
"""Seconds of throughput that are shown."""
KEPT_SECONDS: Final = 10_000
"""Seconds of all topics in one file; above this number, early ones are dropped."""
LOG_BYTES: Final = 16_384
LOG_LINES: Final = 40
MANY: Final = 200
"""The largest number of faults and partitions that are shown."""

CLUSTER_BYTES: Final = 1 << 20
"""Bytes of the cluster record per snapshot, also when the history used up its share."""

LEADER_COLUMNS: Final = ("kind", "topic", "partition", "leader", "leader_epoch", "isr", "at_ns")
COLUMNS: Final = ("f", "type", "topic", "acks", "complete_ns", "error")
_UNREADABLE: Final = (StoreFileError, OSError, ValueError, KeyError, pa.ArrowException)
_PHASE: Final = re.compile(r"harness\.(?:run\.)?runner: phase (?P<phase>.+?)(?P<over> took .*)?$")


@dataclass(slots=True)
class HistoryCounts:
    """Counts of one file of the history, as far as it was read."""

    sends: Counter[tuple[str, int | None, str]] = field(default_factory=Counter)
    """Sends by topic, acks and type."""
    seconds: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Acknowledged sends by topic and second of the run, at least for the last seconds."""
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Count rows of the history."""
        columns = {name: rows.column(name).to_pylist() for name in COLUMNS}
        for f, kind, topic, acks, at_ns, error in zip(*columns.values(), strict=True):
            if error is not None:
                self.errors[str(error)] += 1
            if f != "send":
                continue
            self.sends[str(topic), acks, str(kind)] += 1
            if kind == "ok" and at_ns is not None:
                self.seconds[str(topic), at_ns // 1_000_000_000] += 1
        if len(self.seconds) > KEPT_SECONDS:
            first = max(second for _, second in self.seconds) - 2 * SECONDS
            self.seconds = Counter({key: n for key, n in self.seconds.items() if key[1] >= first})


@dataclass(slots=True)
class WatchedRun:
    """A run with repeated snapshots."""

    counted: dict[str, HistoryCounts] = field(default_factory=dict)
    """By the stem of the file name."""
    tails: dict[str, StreamTail] = field(default_factory=dict)
    sealed: set[str] = field(default_factory=set)
    leaders: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    behind: bool = False
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def note(self, rows: pa.RecordBatch) -> None:
        """Keep the latest leaders in these rows of the cluster record."""
        for row in rows.select(LEADER_COLUMNS).to_pylist():
            if row["kind"] == "leader" and row["topic"] is not None:
                at = (str(row["topic"]), int(row["partition"]))
                if at not in self.leaders or self.leaders[at]["at_ns"] <= row["at_ns"]:
                    self.leaders[at] = row


class LiveView:
    """The runs that browsers watch. Safe to use from several threads."""

    def __init__(self, store_files: StoreFiles) -> None:
        self._store = store_files
        self._watched: OrderedDict[Place, WatchedRun] = OrderedDict()
        self._mutex = threading.Lock()

    def snapshot(self, run: RunSummary, files: Files, now_s: float) -> dict[str, Any]:
        """Return the present state, JSON-able. `now_s`: UTC, seconds since 1970."""
        with self._mutex:
            watched = self._watched.setdefault(run.place, WatchedRun())
            self._watched.move_to_end(run.place)
            if len(self._watched) > RUNS:
                self._watched.popitem(last=False)
        with watched.mutex:
            left = self._histories(run.place, watched, SNAPSHOT_BYTES)
            self._cluster(run.place, watched, left)
            log = self._log(run.place)
            return _snapshot(run, files, watched, log, now_s)

    def _histories(self, place: Place, watched: WatchedRun, left: int) -> int:
        with suppress(StoreFileError):
            for entry in self._store.entries((*place, "history")):
                stem, _, kind = entry.name.rpartition(".")
                here = (*place, "history", entry.name)
                if kind == "parquet" and stem not in watched.sealed and left > 0:
                    left -= self._sealed(here, stem, entry, watched)
                elif kind == "arrows" and stem not in watched.sealed and left > 0:
                    left -= self._streamed(here, stem, entry, watched, left)
        watched.behind = left <= 0
        return left

    def _sealed(self, place: Place, stem: str, entry: Entry, watched: WatchedRun) -> int:
        counted = HistoryCounts()
        try:
            with self._store.file(place) as file:
                for batch in pyarrow.parquet.ParquetFile(file).iter_batches(columns=COLUMNS):
                    counted.add(batch)
        except _UNREADABLE:
            return 0
        watched.counted[stem] = counted
        watched.sealed.add(stem)
        watched.tails.pop(stem, None)
        return entry.size_bytes

    def _streamed(
        self, place: Place, stem: str, entry: Entry, watched: WatchedRun, left: int
    ) -> int:
        tail = watched.tails.setdefault(stem, StreamTail())
        if tail.position > entry.size_bytes:
            watched.counted.pop(stem, None)  # another file with this name
        counted = watched.counted.setdefault(stem, HistoryCounts())
        before = tail.position
        with suppress(*_UNREADABLE), self._store.file(place) as file:
            for batch in tail.read_new(file, entry.size_bytes, left):
                counted.add(batch)
        return max(0, tail.position - before)

    def _cluster(self, place: Place, watched: WatchedRun, left: int) -> None:
        """Read the present leaders: from one stream, or from segments, the last ones first."""
        left = max(left, CLUSTER_BYTES)
        stream = (*place, f"cluster{STREAM}")
        with suppress(StoreFileError):
            left -= self._leaders(stream, self._store.about(stream), watched, left)
        with suppress(StoreFileError):
            folder = (*place, "cluster")
            for entry in reversed(self._store.entries(folder)):
                if left > 0:
                    left -= self._leaders((*folder, entry.name), entry, watched, left)

    def _leaders(self, here: Place, entry: Entry, watched: WatchedRun, left: int) -> int:
        """Read the new leader changes of a file. Return the number of bytes read."""
        name = "/".join(here[-2:])
        if name in watched.sealed or not entry.name.endswith((STREAM, SEALED)):
            return 0
        with suppress(*_UNREADABLE), self._store.file(here) as file:
            if entry.name.endswith(SEALED):
                watched.sealed.add(name)
                watched.tails.pop(name.replace(SEALED, STREAM), None)
                batches = pyarrow.parquet.ParquetFile(file).iter_batches(columns=LEADER_COLUMNS)
                took = entry.size_bytes
            else:
                tail = watched.tails.setdefault(name, StreamTail())
                before = tail.position
                batches = tail.read_new(file, entry.size_bytes, left)
                took = max(0, tail.position - before)
            for batch in batches:
                watched.note(batch)
            return took
        return 0

    def _log(self, place: Place) -> list[str]:
        try:
            text, _ = end_of(self._store, (*place, "harness.log"), LOG_BYTES)
        except StoreFileError:
            return []
        return redacted(text).splitlines()[-LOG_LINES:]


def end_of(store_files: StoreFiles, place: Place, most_bytes: int) -> tuple[str, bool]:
    """Return the end of a text file, from the start of a line on, and whether that is the whole
    file. Raises StoreFileError."""
    with store_files.file(place) as file:
        size = file.seek(0, 2)
        start = max(0, size - most_bytes)
        file.seek(start)
        content = file.read(most_bytes)
    if start:
        content = content[content.find(b"\n") + 1 :]
    return content.decode(errors="replace"), start == 0


def _snapshot(
    run: RunSummary, files: Files, watched: WatchedRun, log: Sequence[str], now_s: float
) -> dict[str, Any]:
    elapsed_s = None if run.started_ns is None else max(0.0, now_s - run.started_ns / 1e9)
    errors: Counter[str] = Counter()
    for each in watched.counted.values():
        errors += each.errors
    return {
        "state": str(run.state),
        "sentence": run.sentence,
        "phase": _phase(log, files),
        "elapsed_s": elapsed_s,
        "topics": _topics(watched, elapsed_s),
        "errors": errors.most_common(10),
        "faults": [
            {
                "label": fault.label or fault.name,
                "started_s": None if fault.started_ns is None else fault.started_ns / 1e9,
                "healed_s": None if fault.healed_ns is None else fault.healed_ns / 1e9,
                "took_effect": fault.took_effect,
                "effect": fault.effect,
            }
            for fault in run.faults[-MANY:]
        ],
        "partitions": [
            {
                "name": f"{topic}-{partition}",
                "leader": row["leader"],
                "epoch": row["leader_epoch"],
                "isr": row["isr"],
                "since_s": row["at_ns"] / 1e9,
            }
            for (topic, partition), row in sorted(watched.leaders.items())[:MANY]
        ],
        "log": list(log),
        "behind": watched.behind,
    }


def _phase(log: Sequence[str], files: Files) -> str:
    """Return the last phase that started, by the log; else the last one that finished."""
    for line in reversed(log):
        if (found := _PHASE.search(line)) is not None:
            return found["phase"] + (" is over" if found["over"] else "")
    finished = files.run.get("finished")
    return f"{finished[-1]} is over" if isinstance(finished, list) and finished else ""


def _topics(watched: WatchedRun, elapsed_s: float | None) -> list[dict[str, Any]]:
    sends: Counter[tuple[str, int | None, str]] = Counter()
    seconds: Counter[tuple[str, int]] = Counter()
    for each in watched.counted.values():
        sends += each.sends
        seconds += each.seconds
    last = max((second for _, second in seconds), default=0)
    found = []
    for topic, acks in dict.fromkeys((topic, acks) for topic, acks, _ in sorted(sends, key=str)):
        counts = {kind: sends[topic, acks, kind] for kind in ("ok", "fail", "info")}
        found.append(
            {
                "name": topic,
                "acks": "?" if acks is None else acks_name(acks),
                **counts,
                "per_s": [seconds[topic, s] for s in range(max(0, last - SECONDS), last)],
                "silent_s": None if elapsed_s is None else max(0.0, elapsed_s - last - 1),
            }
        )
    return found
