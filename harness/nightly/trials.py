"""Runs trials as processes, several at a time, until all are done or the budget is spent.

Each trial has its own store, so that its run is found whatever happens to the process. A trial
that takes too long gets SIGTERM, and SIGKILL when it does not end; the next run undoes what it
left. When the night is stopped, the running trials get SIGTERM and count as not tried.

Trials survive when the process of the night is killed. The process that resumes the night waits for
trials that still run and reads the results of those that ended. An interrupted trial is repeated
only if its record shows no violation: a violation that was seen has happened.
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
from harness.nightly.order import LastNight, next_trial
from harness.nightly.results import INVALID, Outcome, Result, Trial, result_of_trial
from harness.targets.linux import processes
from harness.targets.linux.processes import AdoptedProcess, Process

POLL_S: Final = 0.2
END_S: Final = 60.0
"""The time between SIGTERM and SIGKILL."""


class TrialListener(Protocol):
    """Receives the start and the result of each trial."""

    def began(self, trial: Trial) -> None:
        """A trial starts."""
        ...

    def ended(self, result: Result) -> None:
        """A trial has its result."""
        ...


@dataclass(slots=True, kw_only=True)
class _RunningTrial:
    trial: Trial
    directory: Path
    process: Process
    began_s: float
    asked_to_end_s: float | None = None

    @property
    def ended(self) -> bool:
        if isinstance(self.process, AdoptedProcess):
            return not processes.is_alive(self.process.identity)
        return self.process.poll() is not None

    def send(self, number: int) -> None:
        """Send a signal to this process, and to no later process with the same pid."""
        if not self.ended:
            os.kill(self.process.pid, number)

    def seconds(self, now_s: float) -> float:
        """Return how long the trial took. For a trial of a killed night: until its last output."""
        if isinstance(self.process, AdoptedProcess):
            now_s = min(
                now_s, time.monotonic() - time.time() + trial_output.last_output_s(self.directory)
            )
        return round(max(0.0, now_s - self.began_s), 1)


@dataclass(slots=True)
class TrialRunner:
    """Runs the trials of one night. `stop` may be called at any time, also in a signal handler."""

    night: Night
    cells: Mapping[str, Cell]
    before: LastNight
    listener: TrialListener
    command: Sequence[str] = (sys.executable, "-m", "harness.cli.main")
    stopping: bool = False
    _running: list[_RunningTrial] = field(default_factory=list)

    def stop(self) -> None:
        """Stop: end the running trials and start no others."""
        self.stopping = True

    def work(self, waiting: list[Trial], until_s: float) -> None:
        """Run the trials in this order until `until_s` on the monotonic clock.

        A trial without time left gets the result LEFT_OUT. A trial that a stop interrupted gets
        no result.
        """
        parallel = self.night.suite.parallel or default_parallelism()
        self._adopt(waiting)
        while (waiting or self._running) and not self.stopping:
            self._start_trials(waiting, parallel, until_s)
            if not self._running:
                break  # no trial fits into the budget any more
            time.sleep(POLL_S)
            self._poll(waiting)
        if self.stopping:
            self._end_all()
            return
        for trial in waiting:
            why = "no time was left for it"
            self._finish(
                Result(cell=trial.cell, seed=trial.seed, outcome=Outcome.LEFT_OUT, said=why)
            )

    def _adopt(self, waiting: list[Trial]) -> None:
        """Watch the trials that an earlier process of this night started and did not finish."""
        started = self.night.started()
        for trial in [each for each in waiting if each in started]:
            waiting.remove(trial)
            self._running.append(
                _RunningTrial(
                    trial=trial,
                    directory=self.night.run_dir(trial),
                    process=AdoptedProcess(started[trial].process),
                    began_s=time.monotonic() - time.time() + started[trial].at_s,
                )
            )

    def _start_trials(self, waiting: list[Trial], parallel: int, until_s: float) -> None:
        while len(self._running) < parallel:
            trial = next_trial(waiting, self.cells, self.before, until_s - time.monotonic())
            if trial is None:
                return
            waiting.remove(trial)
            self._running.append(self._start(trial))

    def _start(self, trial: Trial) -> _RunningTrial:
        directory = self.night.run_dir(trial)
        directory.mkdir(parents=True, exist_ok=True)
        argv = [*self.command, *self.cells[trial.cell].argv(trial.seed, directory)]
        with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        self.night.note_start(trial, processes.identify(process.pid), time.time())
        self.listener.began(trial)
        return _RunningTrial(
            trial=trial, directory=directory, process=process, began_s=time.monotonic()
        )

    def _poll(self, waiting: list[Trial]) -> None:
        """Handle the trials that ended, and end those that take too long."""
        limit_s = 60 * self.night.suite.timeout_min
        for each in list(self._running):
            if each.ended:
                self._running.remove(each)
                result = self._result(each)
                if result is None:
                    waiting.insert(0, each.trial)
                else:
                    self._finish(result)
            elif time.monotonic() - each.began_s > limit_s:
                _end_overdue(each)

    def _result(self, each: _RunningTrial) -> Result | None:
        """Return the result of a trial; None for an interrupted one that must be repeated."""
        cell, verdict = self.cells[each.trial.cell], trial_output.verdict(each.directory)
        now_s = time.monotonic()
        if isinstance(each.process, AdoptedProcess):
            if verdict is None:
                found = trial_output.judge_again(each.directory, self.command)
                verdict = found if found is not None and found["verdict"] == INVALID else None
            if verdict is None:
                return None
            code = judge.exit_code(verdict)
        else:
            code = each.process.returncode
        result = result_of_trial(
            cell,
            each.trial,
            exit_code=code,
            verdict=verdict,
            complaint=trial_output.complaint(each.directory),
            known=self.night.suite.known,
        )
        if each.asked_to_end_s is not None and result.verdict != INVALID:
            minutes = self.night.suite.timeout_min
            why = f"the trial took longer than {minutes:g} minutes and was ended"
            result = replace(result, outcome=Outcome.ERROR, said=why)
        if cell.simulated:
            trial_output.write_report(each.directory, self.command)
        run = trial_output.run_of(each.directory)
        return replace(
            result,
            seconds=each.seconds(now_s),
            run=None if run is None else str(run.relative_to(self.night.path)),
            replay=trial_output.replay(each.directory) or cell.command_line(each.trial.seed),
        )

    def _finish(self, result: Result) -> None:
        self.night.note_result(result, time.time())
        self.listener.ended(result)

    def _end_all(self) -> None:
        """End the running trials. A violation that they found by then counts; nothing else does."""
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
                self._finish(result)
            trial_output.discard_output(each.directory)
        self._running.clear()


def _end_overdue(each: _RunningTrial) -> None:
    """Send SIGTERM; END_S later SIGKILL."""
    now_s = time.monotonic()
    if each.asked_to_end_s is None:
        each.asked_to_end_s = now_s
        each.send(signal.SIGTERM)
    elif now_s - each.asked_to_end_s > END_S:
        each.send(signal.SIGKILL)


def default_parallelism() -> int:
    """Return one for every two cores that are idle at the moment, at least one."""
    free = (os.cpu_count() or 1) - os.getloadavg()[0]
    return max(1, int(free // 2))
