"""Background jobs: tried until they are done, one at a time, and reported when they are not."""

import threading
import time
from collections.abc import Callable

import pytest

from harness.run.administration.background import POLL_S, BackgroundJob, BackgroundJobs
from nemesis.concurrency import BackgroundTask, Code, ThreadTaskRunner

PATIENCE_S = 10.0


def test_job_is_tried_until_it_is_done() -> None:
    """It is tried again after an error, too."""
    jobs, tries = BackgroundJobs(), list[int]()

    def step() -> bool:
        tries.append(len(tries))
        if len(tries) == 1:
            raise OSError("nobody answers")
        return len(tries) > 3

    jobs.add(BackgroundJob(layer="a", text="the vote is to be given", step=step))
    deadline_s = time.monotonic() + PATIENCE_S
    while not tries and time.monotonic() < deadline_s:
        time.sleep(POLL_S / 10)
    assert jobs.pending("b") == []
    assert jobs.finish(PATIENCE_S) == []
    assert len(tries) == 4
    jobs.close()


def test_job_that_is_not_done_in_time_is_reported_with_its_error() -> None:
    """With the trouble it has."""
    jobs, tried = BackgroundJobs(), threading.Event()

    def step() -> bool:
        tried.set()
        raise OSError("nobody answers")

    jobs.add(BackgroundJob(layer="a", text="the vote is to be given", step=step))
    assert tried.wait(PATIENCE_S)
    jobs.close()
    assert jobs.finish(0) == ["the vote is to be given (nobody answers)"]


class SlowTaskRunner(ThreadTaskRunner):
    """A task runner whose time goes on by 20 s with each wait, after which `done` is called."""

    def __init__(self, done: Callable[[int], None]) -> None:
        self._done, self._waits = done, 0

    def now_s(self) -> float:
        return 20.0 * self._waits

    def spawn(self, code: Code, name: str) -> BackgroundTask:
        return super().spawn(lambda: None, name)

    def sleep(self, seconds: float) -> None:
        self._waits += 1
        self._done(self._waits)


@pytest.mark.parametrize(("every", "left"), [(2, []), (4, ["1", "2", "3", "4"])])
def test_waiting_for_jobs_goes_on_as_long_as_some_are_done(every: int, left: list[str]) -> None:
    """Four jobs may take 160 s with a bound of 60 s; one after 80 s comes too late."""

    def done(waits: int) -> None:
        if waits % every == 0:
            jobs.drop(str(waits // every))

    jobs = BackgroundJobs(SlowTaskRunner(done))
    for number in range(1, 5):
        jobs.add(BackgroundJob(layer=str(number), text=str(number), step=lambda: False))
    assert jobs.finish(60) == left


def test_dropped_job_does_not_run_any_more() -> None:
    """Dropping waits for a running step."""
    jobs, begun, ended = BackgroundJobs(), threading.Event(), threading.Event()

    def step() -> bool:
        begun.set()
        time.sleep(0.05)
        ended.set()
        return False

    jobs.add(BackgroundJob(layer="a", text="", step=step))
    assert begun.wait(PATIENCE_S)
    jobs.drop("a")
    assert ended.is_set()
    begun.clear()
    assert not begun.wait(2 * POLL_S)
    assert jobs.pending() == []
    jobs.close()
