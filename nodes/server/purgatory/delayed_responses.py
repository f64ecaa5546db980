"""Requests that wait for news, without a task for each: there is one of every follower, always.

Left to subclasses: what is waited for, and what is answered.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Any


class LongPoll(ABC):
    """A request that is answered when there is enough to say, or when its time is up.

    `answer` is the response to come; cancelled (the connection is lost), the poll is over.
    """

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, timeout_s: float) -> "asyncio.Future[Any]":
        """Wait from now on, at most `timeout_s`; the answer."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(timeout_s, self.end_wait)
        self.answer.add_done_callback(self._end)
        self.wait()
        return self.answer

    # -- the subclass's part

    @abstractmethod
    def wait(self) -> None:
        """Have `woken` called with the next news."""

    @abstractmethod
    def look(self, *, last: bool) -> Any:
        """The response; None to wait for more, unless this is the `last` look."""

    @abstractmethod
    def leave(self) -> None:
        """Wait for nothing any more; called once, before the answer goes out."""

    # -- what happens

    def woken(self, _: object = None) -> None:
        """There is news."""
        self._go_on(last=False)

    def end_wait(self) -> None:
        """Its time is up: answer with what there is."""
        self._go_on(last=True)

    def _go_on(self, *, last: bool) -> None:
        answer = self.answer
        if answer.done():
            return
        try:
            response = self.look(last=last)
        except Exception as error:  # a bug of ours, or a node that ends: the connection tells
            answer.set_exception(error)
            return
        if response is None:
            self.wait()
            return
        answer.remove_done_callback(self._end)
        self._end(answer)
        answer.set_result(response)

    def _end(self, _: "asyncio.Future[Any]") -> None:
        assert self._timer is not None
        self._timer.cancel()
        self.leave()
