"""Trials as processes, some at a time, until all had their turn or time is over.

Each has a store of its own, so that its run is found whatever became of it. A trial that takes
longer than it may is ended in order, and killed when it does not end; what it left is undone by the
next run, as after any death. On a stop the running trials end in order and count as not tried.

Trials outlive a night that is killed. Whoever goes on with the night waits for those that live, and
takes what the others came to. A trial that was cut is tried again only if what it had recorded
shows no violation: what was seen once has happened.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from harness.judging import judge
from harness.nightly import trial_output
from harness.nightly.cells import Cell
from harness.nightly.night import Night
from harness.nightly.order import Before, next_of
from harness.nightly.results import INVALID, Outcome, Result, Trial, judged
from harness.targets.linux import processes
from harness.targets.linux.processes import Adopted, Process

POLL_S: Final = 0.2
END_S: Final = 60.0
"""How long a trial may take to end in order."""


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
    directory: Path
    process: Process
    began_s: float
    asked_to_end_s: float | None = None

    @property
    def ended(self) -> bool:
        if isinstance(self.process, Adopted):
            return not processes.is_alive(self.process.identity)
        return self.process.poll() is not None

    def send(self, number: int) -> None:
        """A signal, to this process and to no other that came to have its pid."""
        if not self.ended:
            os.kill(self.process.pid, number)

    def seconds(self, now_s: float) -> float:
        """How long it took; of one that may have been over for long, by its last word."""
        if isinstance(self.process, Adopted):
            now_s = min(now_s, time.monotonic() - time.time() + trial_output.last_s(self.directory))
        return round(max(0.0, now_s - self.began_s), 1)


@dataclass(slots=True)
class Shift:
    """The trials of one night's work. `stop` may be called at any time, from a handler too."""

    night: Night
    cells: Mapping[str, Cell]
    before: Before
    told: Told
    command: Sequence[str] = (sys.executable, "-m", "harness.cli.main")
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
        self._adopt(waiting)
        while (waiting or self._running) and not self.stopping:
            self._begin(waiting, places, until_s)
            if not self._running:
                break  # nothing fits any more
            time.sleep(POLL_S)
            self._look(waiting)
        if self.stopping:
            self._end_all()
            return
        for trial in waiting:
            why = "there was no time left for it"
            self._over(Result(cell=trial.cell, seed=trial.seed, outcome=Outcome.LEFT_OUT, said=why))

    def _adopt(self, waiting: list[Trial]) -> None:
        """Take up what an earlier process of this night began and did not see the end of."""
        begun = self.night.begun()
        for trial in [each for each in waiting if each in begun]:
            waiting.remove(trial)
            self._running.append(
                _Running(
                    trial=trial,
                    directory=self.night.run_dir(trial),
                    process=Adopted(begun[trial].process),
                    began_s=time.monotonic() - time.time() + begun[trial].at_s,
                )
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
        self.night.note_begun(trial, processes.identify(process.pid), time.time())
        self.told.began(trial)
        return _Running(trial=trial, directory=directory, process=process, began_s=time.monotonic())

    def _look(self, waiting: list[Trial]) -> None:
        """Take up who is over, and end who takes too long."""
        limit_s = 60 * self.night.suite.timeout_min
        for each in list(self._running):
            if each.ended:
                self._running.remove(each)
                result = self._result(each)
                if result is None:
                    waiting.insert(0, each.trial)
                else:
                    self._over(result)
            elif time.monotonic() - each.began_s > limit_s:
                _push(each)

    def _result(self, each: _Running) -> Result | None:
        """What became of a trial; None for one that was cut and has to be tried again."""
        cell, verdict = self.cells[each.trial.cell], trial_output.verdict(each.directory)
        now_s = time.monotonic()
        if isinstance(each.process, Adopted):
            if verdict is None:
                found = trial_output.judged_again(each.directory, self.command)
                verdict = found if found is not None and found["verdict"] == INVALID else None
            if verdict is None:
                return None
            code = judge.exit_code(verdict)
        else:
            code = each.process.returncode
        result = judged(
            cell,
            each.trial,
            exit_code=code,
            verdict=verdict,
            complaint=trial_output.complaint(each.directory),
            known=self.night.suite.known,
        )
        if each.asked_to_end_s is not None and result.verdict != INVALID:
            minutes = self.night.suite.timeout_min
            why = f"it took longer than {minutes:g} minutes and was ended"
            result = replace(result, outcome=Outcome.ERROR, said=why)
        if cell.simulated:
            trial_output.write_report(each.directory, self.command)
        run = trial_output.run_of(each.directory)
        return replace(
            result,
            seconds=each.seconds(now_s),
            run=None if run is None else str(run.relative_to(self.night.path)),
            replay=trial_output.replay(each.directory) or cell.typed(each.trial.seed),
        )

    def _over(self, result: Result) -> None:
        self.night.note(result, time.time())
        self.told.ended(result)

    def _end_all(self) -> None:
        """End the trials; what they showed by then counts only where it is a violation."""
        for each in self._running:
            each.send(signal.SIGTERM)
        deadline_s = time.monotonic() + END_S
        for each in self._running:
            while not each.ended and time.monotonic() < deadline_s:
                time.sleep(POLL_S)
            each.send(signal.SIGKILL)
            each.process.wait(END_S)
            verdict = trial_output.verdict(each.directory)
            if verdict is not None and verdict["verdict"] == INVALID:
                result = self._result(each)
                assert result is not None, "a verdict is a result"
                self._over(result)
            trial_output.forget(each.directory)
        self._running.clear()


def _push(each: _Running) -> None:
    """Ask it to end, and some time later see to it."""
    now_s = time.monotonic()
    if each.asked_to_end_s is None:
        each.asked_to_end_s = now_s
        each.send(signal.SIGTERM)
    elif now_s - each.asked_to_end_s > END_S:
        each.send(signal.SIGKILL)


def places_here() -> int:
    """One for every two cores that nothing else uses at the moment; at least one."""
    free = (os.cpu_count() or 1) - os.getloadavg()[0]
    return max(1, int(free // 2))
