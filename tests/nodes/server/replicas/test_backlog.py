"""Many steps run in order without blocking the event loop, and none runs after a failed one."""

import asyncio

from nodes.server.replicas.backlog import STEPS_PER_TURN, Backlog


def standing() -> float:
    """A clock of a world where code takes no time."""
    return 0.0


def test_some_steps_run_at_once_and_the_rest_in_later_turns() -> None:
    """In order, with turns of the event loop in between."""
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


def test_turn_ends_when_its_time_is_up() -> None:
    """If time passes while steps run, it bounds the turn."""
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


def test_failed_step_ends_the_backlog() -> None:
    """Later steps may rely on it; the node has to stop."""
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


def test_no_step_runs_after_the_end() -> None:
    """Neither earlier nor later ones."""

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
