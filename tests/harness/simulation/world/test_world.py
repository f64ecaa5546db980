"""The clock, the order of events and the random streams of a simulated world."""

import asyncio
import gc
import itertools
import weakref

import pytest

from harness.simulation.world.loop import Unsimulated
from harness.simulation.world.world import COLLECT_NS, NS, Livelock, NothingLeft, TooLate, World
from tests.support.simulation.worlds import MakeBare


def test_timers_fire_in_order_of_time_then_of_setting() -> None:
    """By time, and in the order in which they were set when that is equal."""
    world = World(1)
    fired: list[tuple[int, str]] = []

    def note(name: str) -> None:
        fired.append((world.now_ns, name))

    world.after(30, note, "c")
    world.after(10, note, "a")
    world.after(20, note, "not").cancel()
    world.after(10, note, "b")
    world.run_for(1)
    assert fired == [(NS + 10, "a"), (NS + 10, "b"), (NS + 30, "c")]
    assert world.now_ns == 2 * NS


def test_stream_depends_on_the_seed_and_the_purpose_only() -> None:
    """A purpose's numbers depend on the seed and the purpose alone."""
    first = World(1).stream("link", 1, 2)
    other = World(1)
    other.stream("another").random()
    assert other.stream("link", 1, 2).random() == first.random()
    assert World(1).stream("link", 2, 1).random() != World(1).stream("link", 1, 2).random()
    assert World(2).stream("link", 1, 2).random() != World(1).stream("link", 1, 2).random()


def test_cancelled_timers_leave_the_heap() -> None:
    """A million cancelled time-outs leave the heap small."""
    world = World(1)
    for _ in range(10_000):
        world.after(NS, print).cancel()
    assert len(world._timers) < 1000
    assert world.pending == 0


def test_code_that_never_waits_is_a_livelock(make: MakeBare) -> None:
    """Code that goes round without waiting for anything is stopped."""
    world = make()

    async def main() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        world.run(0, main)


def test_timers_for_the_same_instant_are_a_livelock(make: MakeBare) -> None:
    """Time must pass; it is not enough that timers fire."""
    world = make()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        instant = loop.time()

        def again() -> None:
            loop.call_at(instant, again)

        again()
        await asyncio.sleep(1)

    with pytest.raises(Livelock):
        world.run(0, main)


def test_timers_do_not_fire_early_after_unit_conversions(make: MakeBare) -> None:
    """However often a time is turned from one unit into another on its way."""
    world = make()
    early: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(20_000):
            deadline_ms = loop.time() * 1000 + 0.123457
            fired = loop.create_future()
            loop.call_at(deadline_ms / 1000, fired.set_result, None)
            await fired
            if loop.time() * 1000 < deadline_ms:
                early.append(deadline_ms)

    world.run(0, main)
    assert not early


def test_awaiting_an_impossible_event_raises(make: MakeBare) -> None:
    """NothingLeft without events, TooLate after the time limit."""
    world = make()

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    async def slow() -> None:
        await asyncio.sleep(100)

    with pytest.raises(NothingLeft):
        world.run(0, main)
    with pytest.raises(TooLate):
        world.run(1, slow, within_s=10)


def test_garbage_is_collected_only_on_purpose() -> None:
    """The collector's setting is restored."""
    world = World(1)
    seen: list[bool] = []
    world.after(1, lambda: seen.append(gc.isenabled()))
    world.run_for(1)
    assert seen == [False]
    assert gc.isenabled()


class Cycle:
    """Only a collection removes it."""

    def __init__(self) -> None:
        self.itself = self


def test_a_kill_collects_what_is_new_and_the_next_half_minute_the_rest() -> None:
    world = World(1)
    gc.disable()
    try:
        old = Cycle()
        old_one = weakref.ref(old)
        world.collect_young()
        new_one = weakref.ref(Cycle())
        del old
        world.collect_young()
        assert new_one() is None
        assert old_one() is not None
        world.after(COLLECT_NS + 1, lambda: None)
        world.run_for(COLLECT_NS / NS + 1)
        assert old_one() is None
    finally:
        gc.enable()
        world.end()


def test_what_a_world_leaves_is_collected_in_a_process_whose_modules_are_frozen() -> None:
    """Frozen objects are never garbage: many seeds in one process filled the memory."""
    assert gc.get_freeze_count(), "pytest's modules are frozen"
    held = Cycle()
    left = weakref.ref(held)
    World(1).end()
    del held
    gc.collect()
    assert left() is None


def test_uncaught_exceptions_are_recorded_by_host(make: MakeBare) -> None:
    """The run continues."""
    world = make()

    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    world.run(2, main)
    (trouble,) = world.world.troubles
    assert trouble.host == "node-2"
    assert isinstance(trouble.error, ZeroDivisionError)


def test_unsimulated_loop_methods_raise(make: MakeBare) -> None:
    """Descriptors, processes, other sockets."""
    world = make()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(Unsimulated, match="add_reader is not simulated"):
            loop.add_reader(1, print)
        with pytest.raises(Unsimulated, match="subprocess_exec"):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(Unsimulated, match="ssl"):
            await loop.create_connection(asyncio.Protocol, "198.18.0.2", 1, ssl=True)

    world.run(0, main)


def test_asyncio_timeouts_groups_locks_and_queues_work(make: MakeBare) -> None:
    """Executor calls work without threads."""
    world = make()

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(queue.put(number))
            taken = [await queue.get() for _ in range(3)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await asyncio.Event().wait()
        assert await asyncio.to_thread(lambda: 42) == 42
        assert 2 <= loop.time() - began < 2.001
        return taken

    assert world.run(0, main) == [0, 1, 2]
