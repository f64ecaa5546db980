"""Nights whose process is killed while their trials go on, and what those come to."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from harness.nightly import night as nights
from harness.nightly.results import Outcome
from harness.nightly.suite import SuiteError
from tests.harness.nightly.test_nights import World

pytestmark = pytest.mark.slow

HANDS = """
import json, sys
from pathlib import Path
from harness.nightly.cells import cells_of
from harness.nightly.run_night import NightRunner, open_night
from harness.nightly.suite import Suite
suite = Suite.from_json(json.loads(sys.argv[2]), "suite")
opened = open_night(Path(sys.argv[1]), suite, cells_of(suite, Path("/")), new=False, say=print)
runner = NightRunner(opened, print)
runner._trials.command = (sys.executable, "-m", "tests.support.nightly_stub")
sys.exit(runner.run())
"""


def wait_until(ready: Callable[[], bool]) -> None:
    """Bounded, since a busy machine may take its time."""
    deadline_s = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


class Going:
    """A night of one cell at a time, in processes of their own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._started: list[subprocess.Popen[bytes]] = []

    def begin(self, answers: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Begin, or go on."""
        self.world.answers.write_text(json.dumps(answers))
        cells = [{"plan": "random", "name": name, "duration_s": 1} for name in answers]
        suite = self.world.suite(cell=cells, canary=[], parallel=1)
        argv = [sys.executable, "-c", HANDS, str(self.world.store), json.dumps(suite.to_json())]
        self._started.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL))
        return self._started[-1]

    def until(self, begun: int) -> None:
        """Until so many trials were begun, and the last one has its run."""

        def ready() -> bool:
            if self.begun() != begun:
                return False
            night = self.world.last()
            return all((night.run_dir(trial) / "latest").exists() for trial in night.started())

        wait_until(ready)

    def begun(self) -> int:
        """How many times a trial was begun."""
        found = nights.nights(self.world.store, "s")
        path = found[-1].path / nights.TRIALS if found else None
        return path.read_text().count('"begun"') if path is not None and path.exists() else 0

    def end(self) -> None:
        """Leave nothing behind."""
        for process in self._started:
            process.kill()
            process.wait(30)
        for begun in self.world.last().started().values():
            kill(begun)


def kill(begun: nights.StartedTrial) -> None:
    """A trial's process, if it lives."""
    try:
        os.kill(begun.process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture
def going(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Going]:
    made = Going(World(tmp_path, monkeypatch))
    yield made
    made.end()


@pytest.mark.parametrize("waits", [True, False])
def test_what_outlives_a_killed_night_is_taken_up(going: Going, waits: bool) -> None:
    """It is not begun again, whether it is over by then or not, and its result counts."""
    process = going.begin({"cell": "slow INVALID"})
    going.until(begun=1)
    process.kill()
    process.wait(30)
    night = going.world.last()
    stdout = night.run_dir(night.trials[0]) / "stdout"
    if waits:
        wait_until(lambda: stdout.stat().st_size > 0)
    assert going.begin({"cell": "slow INVALID"}).wait(60) == 1
    (result,) = night.results()
    assert result.outcome is Outcome.VIOLATION
    assert result.seconds > 1.0
    assert going.begun() == 1
    assert len(nights.nights(going.world.store, "s")) == 1


def test_a_run_that_was_cut_and_shows_a_violation_is_not_tried_again(going: Going) -> None:
    """What it had recorded by then is judged."""
    process = going.begin({"cell": "cut INVALID"})
    going.until(begun=1)
    process.kill()
    process.wait(30)
    for begun in going.world.last().started().values():
        kill(begun)
    assert going.begin({"cell": "cut INVALID"}).wait(60) == 1
    (result,) = going.world.last().results()
    assert (result.outcome, result.anomalies) == (Outcome.VIOLATION, {"lost-write": 12})
    assert going.begun() == 1


def test_a_run_that_was_cut_and_shows_nothing_is_tried_again(going: Going) -> None:
    """With its seed: nobody knows what it would have shown."""
    process = going.begin({"cell": "cut UNKNOWN"})
    going.until(begun=1)
    process.kill()
    process.wait(30)
    for begun in going.world.last().started().values():
        kill(begun)
    going.begin({"cell": "cut UNKNOWN"})
    going.until(begun=2)
    assert going.world.last().results() == []


def test_the_budget_of_a_killed_night_is_not_new(going: Going) -> None:
    """What was spent is written down with every result."""
    process = going.begin({"first": "VALID", "second": "hangs"})
    wait_until(lambda: going.begun() == 2)
    process.kill()
    process.wait(30)
    night = going.world.last()
    assert len(night.results()) == 1
    assert night.spent_s > 0


def test_two_processes_do_not_work_on_the_same_nights(going: Going) -> None:
    """The second one is told so."""
    home = nights.suite_dir(going.world.store, "s")
    with (
        nights.locked(home),
        pytest.raises(SuiteError, match="another process works"),
        nights.locked(home),
    ):
        pass
    with nights.locked(home):
        pass
    going.begin({"cell": "VALID"}).wait(60)
