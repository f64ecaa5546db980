"""A night from its first trial to its exit code: begin or go on, run, tell, clean up, answer."""

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
from harness.nightly.order import Before
from harness.nightly.publish import Telling
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
from harness.nightly.trials import Shift
from harness.nightly.webhook import message, post
from harness.recording.versions import commit

CUT: Final = 255
"""A night that was stopped has no answer yet, unless it has found something."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A night to work on, and what is known from before."""

    night: Night
    cells: Sequence[Cell]
    telling: Telling
    resumed: bool

    @property
    def results(self) -> list[Result]:
        """What there is so far."""
        return self.night.results()


def open_night(store: Path, suite: Suite, cells: Sequence[Cell], *, new: bool, say: Say) -> Opened:
    """Go on with the last night, if it was cut and was to try the same; else begin one.

    Raises SuiteError where the store cannot be written.
    """
    earlier = nights.nights(store, suite.name)
    cut = earlier[-1] if earlier and earlier[-1].ended_s is None else None
    if cut is not None and not new and _tried(cut.suite) == _tried(suite):
        made = cut
        earlier = earlier[:-1]
        left = len(made.unfinished())
        say(f"going on with the night {made.name}: {left} of {len(made.trials)} trials are left")
    else:
        if cut is not None:
            say(f"the night {cut.name} was cut and stays so")
        made = nights.begin(store, suite, cells, _new_seeds(), time.time(), commit())
    telling = Telling(night=made, cells=cells, earlier=earlier, home=nights.home(store, suite.name))
    return Opened(night=made, cells=cells, telling=telling, resumed=made is cut)


def _tried(suite: Suite) -> tuple[object, ...]:
    """What decides which trials a suite has; how long and by how many hands does not."""
    return suite.matrix, suite.cell, suite.canary, suite.seeds


def _new_seeds() -> Iterator[int]:
    while True:
        yield secrets.randbits(31)


@dataclass(slots=True)
class Conductor:
    """Works through one night. `stop` may be called at any time, from a signal handler too."""

    opened: Opened
    say: Say
    _shift: Shift = field(init=False)
    _began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._began_s = time.monotonic()
        by_name = {cell.name: cell for cell in self.opened.cells}
        before = _before(self.opened.telling.before())
        self._shift = Shift(self.opened.night, by_name, before, self)

    def stop(self) -> None:
        """End in order; the night can be gone on with."""
        self._shift.stop()

    def conduct(self) -> int:
        """Run what is left; the exit code of the night."""
        made, telling = self.opened.night, self.opened.telling
        waiting = order.in_order(self.opened.cells, made.unfinished(), self._shift.before)
        self._shift.work(waiting, self._began_s + 60 * made.suite.budget_min - made.spent_s)
        stopped = self._shift.stopping
        made = self._save(ended_s=None if stopped else time.time())
        telling.tell()
        code = exit_code(made.results())
        if stopped:
            self.say("stopped; the same command goes on with this night")
            return code if code == 1 else CUT
        self._settle(made)
        return code

    def _save(self, ended_s: float | None = None) -> Night:
        """Write down how much of the budget is spent, and the night's end."""
        before = self.opened.night
        spent_s = before.spent_s + time.monotonic() - self._began_s
        made = replace(before, spent_s=spent_s, ended_s=ended_s)
        made.save()
        self.opened.telling.night = made
        return made

    def _settle(self, made: Night) -> None:
        """Tell the web hook, and remove what is old."""
        telling, suite = self.opened.telling, made.suite
        problems = list(telling.problems)
        if suite.webhook is not None:
            results = made.results()
            said = message(made, results, changes(results, telling.before()))
            problems += [why] if (why := post(suite.webhook, said)) else []
        problems += retention.remove(retention.outdated([*telling.earlier, made], suite.keep))
        for problem in problems:
            self.say(problem)

    # -- what is said as it happens

    def began(self, trial: Trial) -> None:
        """See `Told`."""
        self.say(f"{self._count()} begins: {trial.cell}, seed {trial.seed}")

    def ended(self, result: Result) -> None:
        """See `Told`."""
        self._save()
        self.opened.telling.tell()
        took = f" after {result.seconds:.0f} s" if result.seconds else ""
        self.say(f"{self._count()} {result.outcome}{took}: {result.cell}, seed {result.seed}")
        if result.outcome not in (Outcome.PASSED, Outcome.LEFT_OUT):
            self.say(f"    {result.said}")

    def _count(self) -> str:
        return f"[{len(self.opened.results)}/{len(self.opened.night.trials)}]"


def _before(last: Sequence[Result]) -> Before:
    cells = by_cell(last)
    failed = {name for name, found in cells.items() if worst(r.outcome for r in found) in FAILED}
    seconds = {name: max(r.seconds for r in found) for name, found in cells.items()}
    return Before(failed=frozenset(failed), seconds={k: v for k, v in seconds.items() if v})
