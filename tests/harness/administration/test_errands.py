"""Errands: tried until they are done, one at a time, and named when they are not."""

import threading
import time

from harness.administration.errands import POLL_S, Errand, Errands

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
