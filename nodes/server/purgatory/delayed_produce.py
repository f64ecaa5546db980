"""The produce requests of one partition that wait until an offset is committed or flushed.

They are kept in the order of the offset, so an advance of the high watermark looks only at the
requests that it completes. The caller decides the ack of each: from the partition's replication
state for acks=all, from the flushed end for acks=1. A caller that stops waiting (a timeout) calls
`remove`.
"""

import asyncio
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

from nodes.ids import Epoch, Offset
from nodes.replication.partition import ProduceStatus

AckOf = Callable[[Epoch, Offset], ProduceStatus]
"""The ack of a produce that was appended below an offset in a leader epoch.

If it is WAIT for one offset, it is WAIT for every higher offset of the same epoch. It is never WAIT
for an epoch that is over."""


@dataclass(frozen=True, slots=True)
class _DelayedProduce:
    leader_epoch: Epoch
    required_offset: Offset
    future: "asyncio.Future[ProduceStatus]"


class ProducePurgatory:
    """See the module. It is bounded by the requests in flight on all connections."""

    __slots__ = ("_delayed",)

    def __init__(self) -> None:
        self._delayed: list[_DelayedProduce] = []

    def __bool__(self) -> bool:
        return bool(self._delayed)

    def add(self, leader_epoch: Epoch, required_offset: Offset) -> "asyncio.Future[ProduceStatus]":
        """Return a future for the ack of what was appended below `required_offset`."""
        future: asyncio.Future[ProduceStatus] = asyncio.get_running_loop().create_future()
        delayed = _DelayedProduce(leader_epoch, required_offset, future)
        insort(self._delayed, delayed, key=lambda each: each.required_offset)
        return future

    def check_and_complete(self, ack_of: AckOf) -> None:
        """Complete the requests, from the lowest offset on, until `ack_of` says WAIT."""
        completed = 0
        for delayed in self._delayed:
            ack = ack_of(delayed.leader_epoch, delayed.required_offset)
            if ack is ProduceStatus.PENDING:
                break
            completed += 1
            if not delayed.future.done():
                delayed.future.set_result(ack)
        del self._delayed[:completed]

    def remove(self, future: "asyncio.Future[ProduceStatus]") -> None:
        """Remove the request with this future: nobody waits for it any more."""
        self._delayed = [delayed for delayed in self._delayed if delayed.future is not future]
