"""A night on disk: what it was to try, what became of it, and everything told of it.

    <store>/nightly/<suite>/<UTC time>/
      night.json        the suite as it was, commit, machine, seeds, when it began and ended
      trials.jsonl      begun and ended, a line each, on disk at once
      junit.xml summary.md metrics.prom
      runs/<trial>/     the run directories
    <store>/nightly/<suite>/trend.html

A night that was killed has no end, and can be gone on with: what has a result keeps it. One process
at a time works on a suite's nights.
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
class Begun:
    """A trial that somebody began: when (UTC, seconds since 1970), and which process it is."""

    process: ProcessId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One night; times are UTC, seconds since 1970."""

    path: Path
    suite: Suite
    trials: tuple[Trial, ...]
    began_s: float
    commit: str | None
    machine: str
    ended_s: float | None = None
    spent_s: float = 0.0
    """Of the budget."""

    @property
    def name(self) -> str:
        """The name of its directory: when it began."""
        return self.path.name

    def run_dir(self, trial: Trial) -> Path:
        """The store of the trial's run."""
        return self.path / RUNS / trial.name

    def results(self) -> list[Result]:
        """What has an end, in the order of the ends; of each trial the last."""
        found = {
            (line["result"]["cell"], line["result"]["seed"]): Result.from_json(line["result"])
            for line in _lines(self.path / TRIALS)
            if "result" in line
        }
        return list(found.values())

    def unfinished(self) -> list[Trial]:
        """What has no result yet, in the order in which it was written down."""
        done = {(result.cell, result.seed) for result in self.results()}
        return [trial for trial in self.trials if (trial.cell, trial.seed) not in done]

    def begun(self) -> dict[Trial, Begun]:
        """What was begun and has no result; of each trial the last time."""
        names = {trial.name: trial for trial in self.unfinished()}
        return {
            names[line["begun"]]: Begun(process=ProcessId(**line["process"]), at_s=line["at_s"])
            for line in _lines(self.path / TRIALS)
            if line.get("begun") in names and line.get("process")
        }

    def note_begun(self, trial: Trial, process: ProcessId | None, now_s: float) -> None:
        """A trial begins."""
        known = None if process is None else asdict(process)
        self._append({"begun": trial.name, "process": known, "at_s": now_s})

    def note(self, result: Result, now_s: float) -> None:
        """A trial is over."""
        self._append({"result": result.to_json(), "at_s": now_s})

    def _append(self, line: Mapping[str, Any]) -> None:
        with (self.path / TRIALS).open("a") as file:
            # A line that a crash has cut stays as it is, and alone.
            cut = file.tell() and not (self.path / TRIALS).read_bytes().endswith(b"\n")
            file.write(("\n" if cut else "") + json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def save(self) -> None:
        """Write night.json."""
        said = {
            "suite": self.suite.to_json(),
            "trials": [[trial.cell, trial.seed] for trial in self.trials],
            "began_s": self.began_s,
            "ended_s": self.ended_s,
            "spent_s": self.spent_s,
            "commit": self.commit,
            "machine": self.machine,
        }
        write_atomic(self.path / NIGHT, json.dumps(said, indent=2) + "\n")


def begin(
    store: Path,
    suite: Suite,
    cells: Sequence[Cell],
    seeds: Iterator[int],
    now_s: float,
    commit: str | None,
) -> Night:
    """A new night, written down. Raises SuiteError where the store cannot be written."""
    trials = tuple(
        Trial(cell=cell.name, seed=next(seeds)) for cell in cells for _ in range(cell.seeds)
    )
    stamp = datetime.fromtimestamp(now_s, tz=UTC)
    path = home(store, suite.name) / f"{stamp:%Y%m%dT%H%M%S}.{stamp.microsecond // 1000:03d}Z"
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
        raise SuiteError(f"cannot make a night under {store}: {error}") from error
    return night


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Be the only one who works on the nights of `directory`. Raises SuiteError.

    The kernel ends this with the process, however that dies.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SuiteError(f"cannot make nights in {directory}: {error}") from error
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
            f"{directory}: another process is at work on these nights; wait for it, or stop it"
        ) from error


def home(store: Path, suite: str) -> Path:
    """Where a suite's nights are."""
    return store / "nightly" / suite


def nights(store: Path, suite: str) -> list[Night]:
    """All nights of a suite, the oldest first; a directory that is none is no matter."""
    found = []
    for path in sorted(home(store, suite).glob("*Z")):
        try:
            found.append(read(path))
        except SuiteError:
            continue
    return found


def read(path: Path) -> Night:
    """The night of a directory. Raises SuiteError when it is none."""
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
        raise SuiteError(f"{path}: is no night: {NIGHT} cannot be read ({error!r})") from error


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a journal that may be cut anywhere."""
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
