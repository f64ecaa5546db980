"""One night on disk: the suite, the trials, their results, and the files made of them.

    <store>/nightly/<suite>/<UTC time>/
      night.json        the suite as it was, commit, machine, seeds, start and end
      trials.jsonl      one line when a trial starts, one when it ends; fsynced at once
      junit.xml summary.md metrics.prom
      runs/<trial>/     the store of one trial
    <store>/nightly/<suite>/trend.html

A night whose process was killed has no end in night.json and can be resumed; trials with a result
keep it. Only one process at a time works on the nights of a suite (`locked`).
"""

import fcntl
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from harness.nightly.cells import Cell
from harness.nightly.results import Result, Trial
from harness.nightly.suite import Suite, SuiteError
from harness.recording.store import write_atomic
from harness.targets.linux.processes import ProcessId

NIGHT: Final = "night.json"
TRIALS: Final = "trials.jsonl"
RUNS: Final = "runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedTrial:
    """A trial that was started: when (UTC, seconds since 1970), and its process."""

    process: ProcessId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One night. Times are UTC, seconds since 1970."""

    path: Path
    suite: Suite
    trials: tuple[Trial, ...]
    began_s: float
    commit: str | None
    machine: str
    ended_s: float | None = None
    spent_s: float = 0.0
    """Seconds of the budget that are used up."""

    @property
    def name(self) -> str:
        """The name of the directory: the time at which the night began."""
        return self.path.name

    def run_dir(self, trial: Trial) -> Path:
        """Return the directory that is the store of the trial's run."""
        return self.path / RUNS / trial.name

    def results(self) -> list[Result]:
        """Return the results in the order in which trials ended; the last one of each trial."""
        found = {
            (line["result"]["cell"], line["result"]["seed"]): Result.from_json(line["result"])
            for line in _lines(self.path / TRIALS)
            if "result" in line
        }
        return list(found.values())

    def unfinished(self) -> list[Trial]:
        """Return the trials without a result, in the order of night.json."""
        done = {(result.cell, result.seed) for result in self.results()}
        return [trial for trial in self.trials if (trial.cell, trial.seed) not in done]

    def started(self) -> dict[Trial, StartedTrial]:
        """Return the trials that were started and have no result; the last start of each."""
        names = {trial.name: trial for trial in self.unfinished()}
        return {
            names[line["begun"]]: StartedTrial(
                process=ProcessId(**line["process"]), at_s=line["at_s"]
            )
            for line in _lines(self.path / TRIALS)
            if line.get("begun") in names and line.get("process")
        }

    def note_start(self, trial: Trial, process: ProcessId | None, now_s: float) -> None:
        """Record that a trial starts."""
        known = None if process is None else asdict(process)
        self._append({"begun": trial.name, "process": known, "at_s": now_s})

    def note_result(self, result: Result, now_s: float) -> None:
        """Record a trial's result."""
        self._append({"result": result.to_json(), "at_s": now_s})

    def _append(self, line: Mapping[str, Any]) -> None:
        with (self.path / TRIALS).open("a") as file:
            # A crash may have cut the last line: leave it, and start a new one.
            cut = file.tell() and not (self.path / TRIALS).read_bytes().endswith(b"\n")
            file.write(("\n" if cut else "") + json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def save(self) -> None:
        """Write night.json."""
        content = {
            "suite": self.suite.to_json(),
            "trials": [[trial.cell, trial.seed] for trial in self.trials],
            "began_s": self.began_s,
            "ended_s": self.ended_s,
            "spent_s": self.spent_s,
            "commit": self.commit,
            "machine": self.machine,
        }
        write_atomic(self.path / NIGHT, json.dumps(content, indent=2) + "\n")


def create(
    store: Path,
    suite: Suite,
    cells: Sequence[Cell],
    seeds: Iterator[int],
    now_s: float,
    commit: str | None,
) -> Night:
    """Create a new night on disk. Raises SuiteError when the store cannot be written."""
    trials = tuple(
        Trial(cell=cell.name, seed=next(seeds)) for cell in cells for _ in range(cell.seeds)
    )
    stamp = datetime.fromtimestamp(now_s, tz=UTC)
    path = suite_dir(store, suite.name) / f"{stamp:%Y%m%dT%H%M%S}.{stamp.microsecond // 1000:03d}Z"
    night = Night(
        path=path.absolute(),
        suite=suite,
        trials=trials,
        began_s=now_s,
        commit=commit,
        machine=f"{platform.node()}, {os.cpu_count()} cores, {platform.release()}",
    )
    try:
        path.mkdir(parents=True)
        night.save()
    except OSError as error:
        raise SuiteError(f"cannot create a night under {store}: {error}") from error
    return night


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock on the nights of `directory`. Raises SuiteError when another process holds it.

    The kernel releases the lock when the process ends, whatever ends it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SuiteError(f"cannot create nights in {directory}: {error}") from error
    try:
        _lock(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SuiteError(
            f"{directory}: another process works on these nights; wait for it, or stop it"
        ) from error


def suite_dir(store: Path, suite: str) -> Path:
    """Return the directory of a suite's nights."""
    return store / "nightly" / suite


def nights(store: Path, suite: str) -> list[Night]:
    """Return all nights of a suite, the oldest first. Other directories are skipped."""
    found = []
    for path in sorted(suite_dir(store, suite).glob("*Z")):
        try:
            found.append(read(path))
        except SuiteError:
            continue
    return found


def read(path: Path) -> Night:
    """Read the night of a directory. Raises SuiteError when it contains none."""
    try:
        raw = json.loads((path / NIGHT).read_text())
        return Night(
            path=path.absolute(),
            suite=Suite.from_json(raw["suite"], str(path / NIGHT)),
            trials=tuple(Trial(cell=cell, seed=seed) for cell, seed in raw["trials"]),
            began_s=raw["began_s"],
            ended_s=raw["ended_s"],
            spent_s=raw["spent_s"],
            commit=raw["commit"],
            machine=raw["machine"],
        )
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise SuiteError(f"{path} is no night: {NIGHT} cannot be read ({error!r})") from error


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines of a journal whose end may be cut off."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found
