"""A long poll answers once, with news or when its time is up, and leaves nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nodes.server.purgatory.delayed_responses import LongPoll
from tests.support.nodes import virtual_time

LIMIT_S = 60.0


class Watched(LongPoll):
    """Waits until `enough` things are there."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self.things: list[str] = []
        self.waits = 0
        self.left = 0
        self.broken = False
        self._enough = enough

    def wait(self) -> None:
        self.waits += 1

    def look(self, *, last: bool) -> Any:
        if self.broken:
            raise RuntimeError("broken")
        return list(self.things) if last or len(self.things) >= self._enough else None

    def leave(self) -> None:
        self.left += 1

    def bring(self, thing: str) -> None:
        """Something happens."""
        self.things.append(thing)
        self.woken()


def polled(test: Callable[[Watched], Awaitable[None]]) -> None:
    async def run() -> None:
        await test(Watched(2))

    virtual_time.run(run())


def test_too_little_news_is_waited_on() -> None:
    """The first thing is not enough; the second is, and a third comes too late."""

    async def test(poll: Watched) -> None:
        answer = poll.begin(LIMIT_S)
        poll.bring("a")
        await asyncio.sleep(1)
        assert (answer.done(), poll.waits, poll.left) == (False, 2, 0)
        poll.bring("b")
        poll.bring("c")
        assert await answer == ["a", "b"]
        await asyncio.sleep(2 * LIMIT_S)
        assert (poll.waits, poll.left) == (2, 1)

    polled(test)


def test_what_is_there_when_time_is_up_is_the_answer() -> None:
    """However little."""

    async def test(poll: Watched) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        answer = poll.begin(LIMIT_S)
        poll.bring("a")
        assert await answer == ["a"]
        assert loop.time() - begin >= LIMIT_S
        assert poll.left == 1

    polled(test)


def test_a_lost_connection_ends_the_poll() -> None:
    """Nothing is looked at any more."""

    async def test(poll: Watched) -> None:
        poll.begin(LIMIT_S).cancel()
        poll.broken = True
        poll.bring("a")
        await asyncio.sleep(2 * LIMIT_S)
        assert (poll.waits, poll.left) == (1, 1)

    polled(test)


def test_a_failure_is_the_answer() -> None:
    """Whoever serves the connection finds out."""

    async def test(poll: Watched) -> None:
        answer = poll.begin(LIMIT_S)
        poll.broken = True
        poll.bring("a")
        with pytest.raises(RuntimeError, match="broken"):
            await answer
        await asyncio.sleep(0)
        assert poll.left == 1

    polled(test)
