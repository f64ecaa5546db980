"""Many steps are taken in order, without holding up the loop, and never after one that failed."""

import asyncio

from nodes.server.replicas.backlog import STEPS_PER_TURN, Backlog


def standing() -> float:
    """A clock of a world where code takes no time."""
    return 0.0


def test_a_few_steps_are_taken_at_once_and_the_rest_in_later_turns() -> None:
    """In order, with turns of the loop between."""
    taken: list[int] = []
    others = 0

    async def run() -> None:
        nonlocal others
        backlog = Backlog(standing, lambda: None)
        count = 3 * STEPS_PER_TURN
        for number in range(count):
            backlog.add(lambda number=number: taken.append(number))  # type: ignore[misc]
        backlog.run()
        assert len(taken) == STEPS_PER_TURN
        backlog.add(lambda: taken.append(count))
        backlog.run()  # others wait before it
        assert len(taken) == STEPS_PER_TURN
        while len(taken) <= count:
            await asyncio.sleep(0)
            others += 1
        assert taken == list(range(count + 1))

    asyncio.run(run())
    assert others >= 2


def test_a_turn_ends_when_its_time_is_up() -> None:
    """Where time passes, it bounds the turn."""
    now_ms = 0.0
    taken: list[int] = []

    def step() -> None:
        nonlocal now_ms
        now_ms += 4.0
        taken.append(1)

    async def run() -> None:
        backlog = Backlog(lambda: now_ms, lambda: None)
        for _ in range(10):
            backlog.add(step)
        backlog.run()
        assert len(taken) == 2

    asyncio.run(run())


def test_a_step_that_fails_ends_it() -> None:
    """What comes after may rely on what failed; the node is to stop."""
    taken: list[int] = []

    def fail() -> None:
        raise OSError("no space left")

    async def run() -> Backlog:
        backlog = Backlog(standing, lambda: None)
        backlog.add(fail)
        backlog.add(lambda: taken.append(1))
        backlog.run()
        backlog.add(lambda: taken.append(2))
        backlog.run()
        await asyncio.sleep(0)
        return backlog

    assert "no space left" in asyncio.run(run()).failure
    assert taken == []


def test_nothing_is_done_after_the_end() -> None:
    """Neither what waited, nor what comes later."""

    async def main() -> None:
        taken: list[int] = []
        backlog = Backlog(standing, lambda: None)
        for number in range(3 * STEPS_PER_TURN):
            backlog.add(lambda number=number: taken.append(number))  # type: ignore[misc]
        backlog.run()
        backlog.end()
        backlog.add(lambda: taken.append(-1))
        backlog.run()
        for _ in range(10):
            await asyncio.sleep(0)
        assert taken == list(range(STEPS_PER_TURN))

    asyncio.run(main())
