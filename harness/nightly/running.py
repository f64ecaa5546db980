"""Trials as processes of `highwater run`, some at a time, until all had their turn or time is over.

Each has a store of its own, so that its run is found whatever became of it. A trial that takes
longer than it may is ended in order, and killed when it does not end; what it left is undone by the
next run, as after any death. On a stop the running trials end in order and count as not tried.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from harness.nightly.cells import Cell
from harness.nightly.night import Night
from harness.nightly.order import Before, next_of
from harness.nightly.results import Outcome, Result, Trial, judged

POLL_S: Final = 0.2
END_S: Final = 60.0
"""How long a trial may take to end in order."""
LAST_WORDS: Final = 600


class Told(Protocol):
    """Who is told of what happens, as it happens."""

    def began(self, trial: Trial) -> None:
        """A trial begins."""
        ...

    def ended(self, result: Result) -> None:
        """A trial has its result."""
        ...


@dataclass(slots=True, kw_only=True)
class _Running:
    trial: Trial
    process: subprocess.Popen[bytes]
    began_s: float
    asked_to_end_s: float | None = None


@dataclass(slots=True)
class Shift:
    """The trials of one night's work. `stop` may be called at any time, from a handler too."""

    night: Night
    cells: Mapping[str, Cell]
    before: Before
    told: Told
    command: Sequence[str] = (sys.executable, "-m", "harness.cli")
    stopping: bool = False
    _running: list[_Running] = field(default_factory=list)

    def stop(self) -> None:
        """End in order, without the trials that are on their way."""
        self.stopping = True

    def work(self, waiting: list[Trial], until_s: float) -> None:
        """Run the trials in this order until `until_s` on the monotonic clock.

        What has no time left gets a result that says so; what a stop cut gets none.
        """
        places = self.night.suite.parallel or places_here()
        while (waiting or self._running) and not self.stopping:
            self._begin(waiting, places, until_s)
            if not self._running:
                break  # nothing fits any more
            time.sleep(POLL_S)
            self._look()
        if self.stopping:
            self._end_all()
            return
        for trial in waiting:
            said = "there was no time left for it"
            self._over(
                Result(cell=trial.cell, seed=trial.seed, outcome=Outcome.LEFT_OUT, said=said)
            )

    def _begin(self, waiting: list[Trial], places: int, until_s: float) -> None:
        while len(self._running) < places:
            trial = next_of(waiting, self.cells, self.before, until_s - time.monotonic())
            if trial is None:
                return
            waiting.remove(trial)
            self._running.append(self._started(trial))

    def _started(self, trial: Trial) -> _Running:
        directory = self.night.run_dir(trial)
        directory.mkdir(parents=True, exist_ok=True)
        argv = [*self.command, *self.cells[trial.cell].argv(trial.seed, directory)]
        with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        self.night.note_begun(trial, time.time())
        self.told.began(trial)
        return _Running(trial=trial, process=process, began_s=time.monotonic())

    def _look(self) -> None:
        """Take up who is over, and end who takes too long."""
        limit_s = 60 * self.night.suite.timeout_min
        for each in list(self._running):
            if each.process.poll() is not None:
                self._running.remove(each)
                self._over(self._result(each))
            elif time.monotonic() - each.began_s > limit_s:
                _push(each)

    def _result(self, each: _Running) -> Result:
        directory = self.night.run_dir(each.trial)
        seconds = round(time.monotonic() - each.began_s, 1)
        result = judged(
            self.cells[each.trial.cell],
            each.trial,
            exit_code=each.process.returncode,
            verdict=_verdict(directory / "stdout"),
            complaint=_last_words(directory / "stderr"),
            known=self.night.suite.known,
        )
        if each.asked_to_end_s is not None:
            minutes = self.night.suite.timeout_min
            said = f"it took longer than {minutes:g} minutes and was ended"
            result = replace(result, outcome=Outcome.ERROR, said=said)
        run = _run_of(directory)
        return replace(
            result,
            seconds=seconds,
            run=None if run is None else str(run.relative_to(self.night.path)),
            replay=None if run is None else f"highwater run --replay {run}",
        )

    def _over(self, result: Result) -> None:
        self.night.note(result, time.time())
        self.told.ended(result)

    def _end_all(self) -> None:
        for each in self._running:
            each.process.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + END_S
        for each in self._running:
            try:
                each.process.wait(max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()
        self._running.clear()


def _push(each: _Running) -> None:
    """Ask it to end, and some time later see to it."""
    now_s = time.monotonic()
    if each.asked_to_end_s is None:
        each.asked_to_end_s = now_s
        each.process.send_signal(signal.SIGTERM)
    elif now_s - each.asked_to_end_s > END_S:
        each.process.kill()


def places_here() -> int:
    """One for every two cores that nothing else uses at the moment; at least one."""
    free = (os.cpu_count() or 1) - os.getloadavg()[0]
    return max(1, int(free // 2))


def _verdict(path: Path) -> Mapping[str, Any] | None:
    """The verdict that the process printed, if it did."""
    lines = path.read_text(errors="replace").splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and "verdict" in found else None


def _last_words(path: Path) -> str:
    """The last thing that it said of itself on stderr, as one line."""
    said = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    starts = [n for n, line in enumerate(said) if line.startswith("highwater: ")]
    return " ".join(said[starts[-1] if starts else -1 :]).removeprefix("highwater: ")[:LAST_WORDS]


def _run_of(directory: Path) -> Path | None:
    latest = directory / "latest"
    return latest.resolve() if latest.exists() else None
