"""Futures that call a function in the very call that completes them.

A callback of asyncio's futures runs one turn of the event loop later: the loop asks the kernel for
events in between. Requests that wait for a response are too many for that, so the response is sent
by the function, or its reader woken.

Complete such a future in a callback of the event loop, not in the middle of a change: the function
may start the next request. Pure but for that.
"""

import asyncio
from collections.abc import Callable
from typing import Any

Completed = Callable[["asyncio.Future[Any]"], None]


class PromptFuture(asyncio.Future[Any]):
    """See the module. `completed` is called for a result or an error, not for a cancellation."""

    completed: Completed | None = None

    def set_result(self, result: Any) -> None:
        super().set_result(result)
        self._call()

    def set_exception(self, exception: type | BaseException) -> None:
        super().set_exception(exception)
        self._call()

    def _call(self) -> None:
        completed, self.completed = self.completed, None  # no reference cycle stays behind
        if completed is not None:
            completed(self)


def when_completed(future: "asyncio.Future[Any]", completed: Completed) -> None:
    """Call `completed` as soon as possible when `future` is done, which it is not yet."""
    if isinstance(future, PromptFuture):
        future.completed = completed
    else:
        future.add_done_callback(completed)


class Converted(PromptFuture):
    """What `convert` makes of `waiting` when that is done; to cancel it is to cancel `waiting`.

    `convert` gets the future and must not raise what that raised: it looks at its error.
    """

    def __init__(
        self, waiting: "asyncio.Future[Any]", convert: Callable[["asyncio.Future[Any]"], Any]
    ) -> None:
        super().__init__(loop=waiting.get_loop())
        self._waiting = waiting
        self._convert = convert
        waiting.add_done_callback(self._complete)

    def cancel(self, msg: Any | None = None) -> bool:
        self._waiting.cancel(msg)
        return super().cancel(msg)

    def _complete(self, waiting: "asyncio.Future[Any]") -> None:
        if self.done():
            return
        try:
            value = self._convert(waiting)
        except Exception as error:  # a bug: the connection reports it
            self.set_exception(error)
        else:
            self.set_result(value)
