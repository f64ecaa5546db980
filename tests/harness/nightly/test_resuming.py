"""Nights whose process is killed while their trials go on, and the results of these trials."""

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
    """Wait at most 60 s."""
    deadline_s = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


class Going:
    """A night in a process of its own, one cell at a time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._started: list[subprocess.Popen[bytes]] = []

    def begin(self, answers: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start or resume the night."""
        self.world.answers.write_text(json.dumps(answers))
        cells = [{"plan": "random", "name": name, "duration_s": 1} for name in answers]
        suite = self.world.suite(cell=cells, canary=[], parallel=1)
        argv = [sys.executable, "-c", HANDS, str(self.world.store), json.dumps(suite.to_json())]
        self._started.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL))
        return self._started[-1]

    def until(self, begun: int) -> None:
        """Wait until this many trials were started, and the last one has its run."""

        def ready() -> bool:
            if self.begun() != begun:
                return False
            night = self.world.last()
            return all((night.run_dir(trial) / "latest").exists() for trial in night.started())

        wait_until(ready)

    def begun(self) -> int:
        """Return how many times a trial was started."""
        found = nights.nights(self.world.store, "s")
        path = found[-1].path / nights.TRIALS if found else None
        return path.read_text().count('"begun"') if path is not None and path.exists() else 0

    def end(self) -> None:
        """Kill all processes."""
        for process in self._started:
            process.kill()
            process.wait(30)
        for begun in self.world.last().started().values():
            kill(begun)


def kill(begun: nights.StartedTrial) -> None:
    """Kill a trial's process, if it is alive."""
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
def test_resumed_night_takes_the_result_of_a_trial_that_survived(going: Going, waits: bool) -> None:
    """The trial is not started again, whether it has ended by then or not."""
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


def test_interrupted_trial_with_a_violation_is_not_repeated(going: Going) -> None:
    """Its record is judged."""
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


def test_interrupted_trial_without_a_violation_is_repeated(going: Going) -> None:
    """With its seed, because its result is unknown."""
    process = going.begin({"cell": "cut UNKNOWN"})
    going.until(begun=1)
    process.kill()
    process.wait(30)
    for begun in going.world.last().started().values():
        kill(begun)
    going.begin({"cell": "cut UNKNOWN"})
    going.until(begun=2)
    assert going.world.last().results() == []


def test_resumed_night_keeps_the_spent_budget(going: Going) -> None:
    """It is saved with every result."""
    process = going.begin({"first": "VALID", "second": "hangs"})
    wait_until(lambda: going.begun() == 2)
    process.kill()
    process.wait(30)
    night = going.world.last()
    assert len(night.results()) == 1
    assert night.spent_s > 0


def test_second_process_on_the_same_nights_is_refused(going: Going) -> None:
    """Until the first one ends."""
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
