"""TaskRunner of the real world: threads that are waited for, and whose errors are not lost."""

import threading

import pytest

from nemesis.concurrency import ThreadTaskRunner


def test_a_task_runs_concurrently_and_waits_have_a_bound() -> None:
    """Waiting has a bound, and says whether it is over."""
    go_on = threading.Event()
    strand = ThreadTaskRunner().spawn(lambda: [go_on.wait(30)].clear(), "waits")
    assert not strand.wait(0.01)
    assert not strand.done()
    go_on.set()
    assert strand.wait()
    assert strand.done()
    strand.result()


def test_result_raises_the_error_of_the_task() -> None:
    """Not the waiting's, nor the thread's."""

    def fails() -> None:
        raise LookupError("nothing")

    strand = ThreadTaskRunner().spawn(fails, "fails")
    assert strand.wait()
    with pytest.raises(LookupError, match="nothing"):
        strand.result()


def test_now_advances_by_at_least_the_sleep() -> None:
    """Monotonic, and at least as long as one sleeps."""
    task_runner = ThreadTaskRunner()
    began_s = task_runner.now_s()
    task_runner.sleep(0.01)
    assert task_runner.now_s() - began_s >= 0.009


def test_a_mutex_may_be_taken_twice() -> None:
    """By its holder; another waits."""
    task_runner, order = ThreadTaskRunner(), list[str]()
    mutex = task_runner.mutex()

    def other() -> None:
        with mutex:
            order.append("other")

    with mutex, mutex:
        waiting = task_runner.spawn(other, "other")
        assert not waiting.wait(0.01)
        order.append("holder")
    assert waiting.wait()
    assert order == ["holder", "other"]
