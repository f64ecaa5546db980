"""Synchronous code in the world's time: it waits, locks, calls coroutines, and is unwound."""

import asyncio

import pytest

from harness.simulation.world.synchronous import GreenletRunner
from harness.simulation.world.world import NothingLeft, TooLate
from nemesis.concurrency import TaskRunner, ThreadTaskRunner
from tests.support.simulation.worlds import MakeBare


@pytest.fixture
def task_runner(make: MakeBare) -> GreenletRunner:
    """TaskRunner of a world whose first host lives."""
    world = make()
    host = world.hosts[1]

    async def idle() -> None:
        await asyncio.get_running_loop().create_future()

    host.boot(idle)
    return GreenletRunner(world.world, host)


def test_time_passes_while_a_task_sleeps(task_runner: GreenletRunner) -> None:
    """Exactly as long as requested; other tasks run meanwhile."""
    said: list[tuple[str, float]] = []

    def sleeper(name: str, seconds: float) -> None:
        for _ in range(2):
            task_runner.sleep(seconds)
            said.append((name, round(task_runner.now_s() - began_s, 3)))

    began_s = task_runner.now_s()

    def main() -> None:
        slow = task_runner.spawn(lambda: sleeper("slow", 3), "slow")
        quick = task_runner.spawn(lambda: sleeper("quick", 1), "quick")
        assert not slow.wait(0.5)
        assert quick.wait()
        slow.result()
        assert slow.wait(0)
        assert slow.done()

    task_runner.run_main(main, 60)
    assert said == [("quick", 1.0), ("quick", 2.0), ("slow", 3.0), ("slow", 6.0)]


def test_result_raises_what_the_task_raised(task_runner: GreenletRunner) -> None:
    """`wait` only tells that the task has ended."""

    def fails() -> None:
        task_runner.sleep(1)
        raise LookupError("nothing")

    def main() -> None:
        strand = task_runner.spawn(fails, "fails")
        assert strand.wait()
        strand.result()

    with pytest.raises(LookupError, match="nothing"):
        task_runner.run_main(main, 60)


def test_call_returns_or_raises_like_the_coroutine(task_runner: GreenletRunner) -> None:
    """With its result or its error, after the time that it took."""

    async def doubled(number: int) -> int:
        await asyncio.sleep(number)
        if number > 3:
            raise ValueError("too much")
        return 2 * number

    def main() -> None:
        began_s = task_runner.now_s()
        assert task_runner.call(lambda: doubled(3)) == 6
        assert 3 <= task_runner.now_s() - began_s < 3.001
        with pytest.raises(ValueError, match="too much"):
            task_runner.call(lambda: doubled(4))

    task_runner.run_main(main, 60)


def exclusion(task_runner: TaskRunner, unit_s: float) -> list[str]:
    """What three task_runner do that take one mutex, twice each."""
    mutex, done = task_runner.mutex(), list[str]()

    def work(name: str) -> None:
        with mutex, mutex:
            done.append(f"{name} in")
            task_runner.sleep(unit_s)
            done.append(f"{name} out")

    for each in [task_runner.spawn(lambda name=name: work(name), name) for name in "abc"]:  # type: ignore[misc]
        each.result()
    return done


def test_mutex_is_held_by_one_task_at_a_time(task_runner: GreenletRunner) -> None:
    """Its holder may take it again; the others wait."""
    found: list[list[str]] = []
    task_runner.run_main(lambda: found.append(exclusion(task_runner, 1)), 60)
    assert found == [["a in", "a out", "b in", "b out", "c in", "c out"]]
    real = exclusion(ThreadTaskRunner(), 0.01)
    assert sorted(real) == sorted(found[0])
    assert all(real[n][0] == real[n + 1][0] for n in (0, 2, 4))


def test_mutex_is_released_after_an_error(task_runner: GreenletRunner) -> None:
    """And goes to who waits for it."""
    mutex, order = task_runner.mutex(), list[str]()

    def fails() -> None:
        with mutex:
            task_runner.sleep(1)
            raise LookupError

    def waits() -> None:
        with mutex:
            order.append("got it")

    def main() -> None:
        first = task_runner.spawn(fails, "fails")
        second = task_runner.spawn(waits, "waits")
        assert first.wait()
        assert second.wait()

    task_runner.run_main(main, 60)
    assert order == ["got it"]


def test_close_unwinds_tasks_that_have_not_ended(task_runner: GreenletRunner) -> None:
    """`finally` blocks run, and cannot wait."""
    unwound: list[str] = []

    def stuck() -> None:
        try:
            task_runner.sleep(1_000)
        finally:
            unwound.append("stuck")
            task_runner.sleep(1)
            unwound.append("went on")

    with pytest.raises(TooLate):
        task_runner.run_main(stuck, 10)
    task_runner.close()
    assert unwound == ["stuck"]


def test_task_that_nothing_wakes_ends_the_run(task_runner: GreenletRunner) -> None:
    """The run does not hang."""
    mutex = task_runner.mutex()

    def holds() -> None:
        mutex.__enter__()

    def main() -> None:
        task_runner.spawn(holds, "holds").wait()
        with mutex:
            raise AssertionError("two hold it")

    with pytest.raises(NothingLeft):
        task_runner.run_main(main, 10)
    task_runner.close()
