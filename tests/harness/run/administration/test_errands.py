"""Errands: tried until they are done, one at a time, and named when they are not."""

import threading
import time
from collections.abc import Callable

import pytest

from harness.run.administration.background import POLL_S, Errand, Errands
from nemesis.concurrency import Code, Strand, Threads

PATIENCE_S = 10.0


def test_an_errand_is_tried_until_it_is_done() -> None:
    """Also when it raises; what was wrong is said as long as it is owed."""
    errands, tries = Errands(), list[int]()

    def step() -> bool:
        tries.append(len(tries))
        if len(tries) == 1:
            raise OSError("nobody answers")
        return len(tries) > 3

    errands.add(Errand(layer="a", text="the vote is to be given", step=step))
    deadline_s = time.monotonic() + PATIENCE_S
    while not tries and time.monotonic() < deadline_s:
        time.sleep(POLL_S / 10)
    assert errands.owed("b") == []
    assert errands.finish(PATIENCE_S) == []
    assert len(tries) == 4
    errands.close()


def test_what_is_not_done_in_time_is_named() -> None:
    """With the trouble it has."""
    errands, tried = Errands(), threading.Event()

    def step() -> bool:
        tried.set()
        raise OSError("nobody answers")

    errands.add(Errand(layer="a", text="the vote is to be given", step=step))
    assert tried.wait(PATIENCE_S)
    errands.close()
    assert errands.finish(0) == ["the vote is to be given (nobody answers)"]


class Slow(Threads):
    """Where time goes by while somebody waits, and `done` is called with every 20 s of it."""

    def __init__(self, done: Callable[[int], None]) -> None:
        self._done, self._waits = done, 0

    def now_s(self) -> float:
        return 20.0 * self._waits

    def spawn(self, code: Code, name: str) -> Strand:
        return super().spawn(lambda: None, name)

    def sleep(self, seconds: float) -> None:
        self._waits += 1
        self._done(self._waits)


@pytest.mark.parametrize(("every", "left"), [(2, []), (4, ["1", "2", "3", "4"])])
def test_errands_have_time_as_long_as_some_are_done(every: int, left: list[str]) -> None:
    """Four in 160 s with a bound of 60 s; one after 80 s comes too late."""

    def done(waits: int) -> None:
        if waits % every == 0:
            errands.drop(str(waits // every))

    errands = Errands(Slow(done))
    for number in range(1, 5):
        errands.add(Errand(layer=str(number), text=str(number), step=lambda: False))
    assert errands.finish(60) == left


def test_a_dropped_errand_is_at_work_no_more() -> None:
    """Whoever drops it waits for the step that is being taken."""
    errands, begun, ended = Errands(), threading.Event(), threading.Event()

    def step() -> bool:
        begun.set()
        time.sleep(0.05)
        ended.set()
        return False

    errands.add(Errand(layer="a", text="", step=step))
    assert begun.wait(PATIENCE_S)
    errands.drop("a")
    assert ended.is_set()
    begun.clear()
    assert not begun.wait(2 * POLL_S)
    assert errands.owed() == []
    errands.close()
