"""A prompt future tells at once that it is done; asyncio's own tells in the next turn."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from nodes.wire.prompt import Converted, PromptFuture, when_completed

Future = asyncio.Future[Any]


def on_a_loop(test: Callable[[asyncio.AbstractEventLoop], Awaitable[None]]) -> None:
    async def run() -> None:
        await test(asyncio.get_running_loop())

    asyncio.run(run())


def test_prompt_future_calls_its_function_in_the_call_that_completes_it() -> None:
    """Once, with a result or an error, and it lets go of the function."""

    async def test(loop: asyncio.AbstractEventLoop) -> None:
        for complete in (
            lambda future: future.set_result(1),
            lambda future: future.set_exception(ValueError("no")),
        ):
            called: list[Future] = []
            future = PromptFuture(loop=loop)
            when_completed(future, called.append)
            assert called == []
            complete(future)
            assert called == [future]
            assert future.completed is None
            future.exception()

    on_a_loop(test)


def test_prompt_future_that_is_cancelled_calls_nothing() -> None:
    """Its connection is lost: nobody is left to hear."""

    async def test(loop: asyncio.AbstractEventLoop) -> None:
        called: list[Future] = []
        future = PromptFuture(loop=loop)
        when_completed(future, called.append)
        future.cancel()
        await asyncio.sleep(0)
        assert called == []

    on_a_loop(test)


def test_any_other_future_calls_in_the_next_turn() -> None:
    """As a task does."""

    async def test(loop: asyncio.AbstractEventLoop) -> None:
        called: list[Future] = []
        future = loop.create_future()
        when_completed(future, called.append)
        future.set_result(1)
        assert called == []
        await asyncio.sleep(0)
        assert called == [future]

    on_a_loop(test)


def test_converted_future_has_what_the_function_makes_of_a_result_or_an_error() -> None:
    """And calls its own function in the same turn."""

    async def test(loop: asyncio.AbstractEventLoop) -> None:
        def convert(waiting: Future) -> str:
            return f"{waiting.exception() or waiting.result()}"

        called: list[Future] = []
        for complete in (
            lambda future: future.set_result(7),
            lambda future: future.set_exception(ValueError("no")),
        ):
            waiting = loop.create_future()
            converted = Converted(waiting, convert)
            when_completed(converted, called.append)
            complete(waiting)
            await asyncio.sleep(0)
        assert [each.result() for each in called] == ["7", "no"]

    on_a_loop(test)


def test_converted_future_has_the_error_of_its_function() -> None:
    """A bug there must not leave the request without a response."""

    async def test(loop: asyncio.AbstractEventLoop) -> None:
        def convert(waiting: Future) -> None:
            raise ValueError("a bug")

        waiting = loop.create_future()
        converted = Converted(waiting, convert)
        waiting.set_result(1)
        await asyncio.sleep(0)
        assert str(converted.exception()) == "a bug"

    on_a_loop(test)


def test_cancelling_a_converted_future_cancels_what_it_waits_for() -> None:
    """So that a lost connection ends the wait."""

    async def test(loop: asyncio.AbstractEventLoop) -> None:
        waiting = loop.create_future()
        converted = Converted(waiting, lambda done: done.result())
        converted.cancel()
        await asyncio.sleep(0)
        assert (waiting.cancelled(), converted.cancelled()) == (True, True)

    on_a_loop(test)
