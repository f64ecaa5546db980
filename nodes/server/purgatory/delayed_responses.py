"""A response that is delayed until there is enough to answer, or until its time is up.

It needs no task of its own, because every follower has such a request waiting all the time. A
subclass decides what to watch and what to respond.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from nodes.wire.prompt import PromptFuture


class DelayedResponse(ABC):
    """A request in the purgatory.

    `response` is the future response. When it is cancelled (the connection is lost), the wait ends.
    """

    def __init__(self) -> None:
        self.response = PromptFuture(loop=asyncio.get_running_loop())
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timeout_s: float) -> "asyncio.Future[Any]":
        """Start to wait, at most `timeout_s`; return the future response."""
        self._timer = self.response.get_loop().call_later(timeout_s, self.force_complete)
        self.response.add_done_callback(self._end)
        self.watch()
        return self.response

    # -- what a subclass defines

    @abstractmethod
    def watch(self) -> None:
        """Arrange that the next change calls `check_and_complete`."""

    @abstractmethod
    def try_complete(self, *, forced: bool) -> Any:
        """Return the response, or None to wait for more. With `forced` it must be a response."""

    @abstractmethod
    def unwatch(self) -> None:
        """Stop watching. Called once, before the response is set."""

    # -- completion, in callbacks of the event loop (`nodes.wire.prompt`)

    def check_and_complete(self, _: object = None) -> None:
        """Something changed: respond if it is enough."""
        self._complete(forced=False)

    def force_complete(self) -> None:
        """The time is up: respond with what there is."""
        self._complete(forced=True)

    def _complete(self, *, forced: bool) -> None:
        future = self.response
        if future.done():
            return
        try:
            response = self.try_complete(forced=forced)
        except Exception as error:  # a bug, or a node that stops: the connection reports it
            future.set_exception(error)
            return
        if response is None:
            self.watch()
            return
        future.remove_done_callback(self._end)
        self._end(future)
        future.set_result(response)

    def _end(self, _: "asyncio.Future[Any]") -> None:
        assert self._timer is not None
        self._timer.cancel()
        self.unwatch()
