"""One night from start to exit code: create or resume it, run the trials, publish, clean up."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.nightly import night as nights
from harness.nightly import order, retention
from harness.nightly.cells import Cell
from harness.nightly.night import Night
from harness.nightly.order import LastNight
from harness.nightly.publish import NightFiles
from harness.nightly.results import (
    FAILED,
    Outcome,
    Result,
    Trial,
    by_cell,
    changes,
    exit_code,
    worst,
)
from harness.nightly.suite import Suite
from harness.nightly.trials import TrialRunner
from harness.nightly.webhook import message, post
from harness.recording.versions import commit

STOPPED_EXIT_CODE: Final = 255
"""A stopped night has no result yet, unless it found a violation."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNight:
    """A night to work on, with its cells and its result files."""

    night: Night
    cells: Sequence[Cell]
    files: NightFiles
    resumed: bool

    @property
    def results(self) -> list[Result]:
        """The results so far."""
        return self.night.results()


def open_night(
    store: Path, suite: Suite, cells: Sequence[Cell], *, new: bool, say: Say
) -> OpenNight:
    """Resume the last night if it was interrupted and has the same cells; else create a new one.

    Raises SuiteError when the store cannot be written.
    """
    earlier = nights.nights(store, suite.name)
    interrupted = earlier[-1] if earlier and earlier[-1].ended_s is None else None
    same = interrupted is not None and _cells_of_suite(interrupted.suite) == _cells_of_suite(suite)
    if interrupted is not None and same and not new:
        made = interrupted
        earlier = earlier[:-1]
        left = len(made.unfinished())
        say(f"resuming the night {made.name}: {left} of {len(made.trials)} trials are left")
    else:
        if interrupted is not None:
            say(f"the night {interrupted.name} was interrupted and is not resumed")
        made = nights.create(store, suite, cells, _new_seeds(), time.time(), commit())
    files = NightFiles(
        night=made,
        cells=cells,
        earlier=earlier,
        suite_dir=nights.suite_dir(store, suite.name),
    )
    return OpenNight(night=made, cells=cells, files=files, resumed=made is interrupted)


def _cells_of_suite(suite: Suite) -> tuple[object, ...]:
    """Return the parts of a suite that decide its trials; budget and parallelism do not."""
    return suite.matrix, suite.cell, suite.canary, suite.seeds


def _new_seeds() -> Iterator[int]:
    while True:
        yield secrets.randbits(31)


@dataclass(slots=True)
class NightRunner:
    """Runs one night. `stop` may be called at any time, also in a signal handler."""

    opened: OpenNight
    say: Say
    _trials: TrialRunner = field(init=False)
    _began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._began_s = time.monotonic()
        by_name = {cell.name: cell for cell in self.opened.cells}
        before = _before(self.opened.files.previous_results())
        self._trials = TrialRunner(self.opened.night, by_name, before, self)

    def stop(self) -> None:
        """Stop. The night can be resumed."""
        self._trials.stop()

    def run(self) -> int:
        """Run the trials that are left. Return the exit code of the night."""
        made, files = self.opened.night, self.opened.files
        waiting = order.in_order(self.opened.cells, made.unfinished(), self._trials.before)
        self._trials.work(waiting, self._began_s + 60 * made.suite.budget_min - made.spent_s)
        stopped = self._trials.stopping
        made = self._save(ended_s=None if stopped else time.time())
        files.write()
        code = exit_code(made.results())
        if stopped:
            self.say("stopped; the same command resumes this night")
            return code if code == 1 else STOPPED_EXIT_CODE
        self._finish(made)
        return code

    def _save(self, ended_s: float | None = None) -> Night:
        """Save how much of the budget is spent, and when the night ended."""
        before = self.opened.night
        spent_s = before.spent_s + time.monotonic() - self._began_s
        made = replace(before, spent_s=spent_s, ended_s=ended_s)
        made.save()
        self.opened.files.night = made
        return made

    def _finish(self, made: Night) -> None:
        """Call the web hook, remove old runs, and print all problems."""
        files, suite = self.opened.files, made.suite
        problems = list(files.problems)
        if suite.webhook is not None:
            results = made.results()
            body = message(made, results, changes(results, files.previous_results()))
            problems += [why] if (why := post(suite.webhook, body)) else []
        problems += retention.remove(retention.outdated([*files.earlier, made], suite.keep))
        for problem in problems:
            self.say(problem)

    # -- TrialListener: messages as trials start and end

    def began(self, trial: Trial) -> None:
        """See `TrialListener`."""
        self.say(f"{self._count()} starts: {trial.cell}, seed {trial.seed}")

    def ended(self, result: Result) -> None:
        """See `TrialListener`."""
        self._save()
        self.opened.files.write()
        took = f" after {result.seconds:.0f} s" if result.seconds else ""
        self.say(f"{self._count()} {result.outcome}{took}: {result.cell}, seed {result.seed}")
        if result.outcome not in (Outcome.PASSED, Outcome.LEFT_OUT):
            self.say(f"    {result.said}")

    def _count(self) -> str:
        return f"[{len(self.opened.results)}/{len(self.opened.night.trials)}]"


def _before(last: Sequence[Result]) -> LastNight:
    cells = by_cell(last)
    failed = {name for name, found in cells.items() if worst(r.outcome for r in found) in FAILED}
    seconds = {name: max(r.seconds for r in found) for name, found in cells.items()}
    return LastNight(failed=frozenset(failed), seconds={k: v for k, v in seconds.items() if v})
