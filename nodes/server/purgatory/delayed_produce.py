"""Produce requests that wait for an offset of one partition.

In order of the offset, so that an advance of the high watermark looks only at those that it
answers. An answer is decided by the caller's `judge`: the partition's replication state for
acks=all, the flushed end for acks=1. Whoever stops waiting (a timeout) says so by `forget`.
"""

import asyncio
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

from nodes.ids import Epoch, Offset
from nodes.replication.partition import Ack

Judge = Callable[[Epoch, Offset], Ack]
"""What to tell who appended below an offset in a leader epoch. If it says WAIT for one offset, it
says so for every higher one of the same epoch; and it never says WAIT for an epoch that is over."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    leader_epoch: Epoch
    required: Offset
    future: "asyncio.Future[Ack]"


class Acks:
    """See the module. Bounded by the requests in flight on all connections."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def wait(self, leader_epoch: Epoch, required: Offset) -> "asyncio.Future[Ack]":
        """The answer to come for what was appended below `required` in `leader_epoch`."""
        future: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(leader_epoch, required, future)
        insort(self._waiting, waiting, key=lambda each: each.required)
        return future

    def settle(self, judge: Judge) -> None:
        """Answer those, from the lowest offset on, whom `judge` does not let wait."""
        answered = 0
        for waiting in self._waiting:
            ack = judge(waiting.leader_epoch, waiting.required)
            if ack is Ack.WAIT:
                break
            answered += 1
            if not waiting.future.done():
                waiting.future.set_result(ack)
        del self._waiting[:answered]

    def forget(self, future: "asyncio.Future[Ack]") -> None:
        """Nobody waits for this answer any more."""
        self._waiting = [waiting for waiting in self._waiting if waiting.future is not future]
