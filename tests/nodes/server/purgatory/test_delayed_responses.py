"""A delayed response completes once, when there is enough or when its time is up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nodes.server.purgatory.delayed_responses import DelayedResponse
from tests.support.nodes import virtual_time

LIMIT_S = 60.0


class Collected(DelayedResponse):
    """Responds when there are `enough` items."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self.items: list[str] = []
        self.watched = 0
        self.unwatched = 0
        self.broken = False
        self._enough = enough

    def watch(self) -> None:
        self.watched += 1

    def try_complete(self, *, forced: bool) -> Any:
        if self.broken:
            raise RuntimeError("broken")
        return list(self.items) if forced or len(self.items) >= self._enough else None

    def unwatch(self) -> None:
        self.unwatched += 1

    def add(self, item: str) -> None:
        """Something changes."""
        self.items.append(item)
        self.check_and_complete()


def on_virtual_time(test: Callable[[Collected], Awaitable[None]]) -> None:
    async def run() -> None:
        await test(Collected(2))

    virtual_time.run(run())


def test_response_waits_until_there_is_enough() -> None:
    """The first item is not enough; the second is, and the third comes too late."""

    async def test(delayed: Collected) -> None:
        response = delayed.start(LIMIT_S)
        delayed.add("a")
        await asyncio.sleep(1)
        assert (response.done(), delayed.watched, delayed.unwatched) == (False, 2, 0)
        delayed.add("b")
        delayed.add("c")
        assert await response == ["a", "b"]
        await asyncio.sleep(2 * LIMIT_S)
        assert (delayed.watched, delayed.unwatched) == (2, 1)

    on_virtual_time(test)


def test_response_has_what_there_is_when_the_time_is_up() -> None:
    """However little."""

    async def test(delayed: Collected) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        response = delayed.start(LIMIT_S)
        delayed.add("a")
        assert await response == ["a"]
        assert loop.time() - start >= LIMIT_S
        assert delayed.unwatched == 1

    on_virtual_time(test)


def test_cancelled_response_is_not_tried_again() -> None:
    """As when the connection is lost."""

    async def test(delayed: Collected) -> None:
        delayed.start(LIMIT_S).cancel()
        delayed.broken = True
        delayed.add("a")
        await asyncio.sleep(2 * LIMIT_S)
        assert (delayed.watched, delayed.unwatched) == (1, 1)

    on_virtual_time(test)


def test_failure_is_set_on_the_response() -> None:
    """The connection that serves it finds out."""

    async def test(delayed: Collected) -> None:
        response = delayed.start(LIMIT_S)
        delayed.broken = True
        delayed.add("a")
        with pytest.raises(RuntimeError, match="broken"):
            await response
        await asyncio.sleep(0)
        assert delayed.unwatched == 1

    on_virtual_time(test)
