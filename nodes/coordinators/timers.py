"""Deadlines by key: when the next is due, and which are due now.

A deadline that moves later, as a session's does with each heartbeat, costs no sorting: the queue
keeps one entry for each key, and sorts it anew when its old time comes.
"""

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """One deadline for each key, in monotonic milliseconds."""

    def __init__(self) -> None:
        self._deadlines: dict[K, float] = {}
        self._queued: dict[K, tuple[float, int]] = {}
        self._queue: list[tuple[float, int, K]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def schedule(self, key: K, deadline_ms: float) -> None:
        """Set the deadline of `key`, in place of the one that it had."""
        self._deadlines[key] = deadline_ms
        queued = self._queued.get(key)
        if queued is None or deadline_ms < queued[0]:
            self._enqueue(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """Remove the deadline of `key`, if it has one."""
        self._deadlines.pop(key, None)

    def next_ms(self) -> float | None:
        """The earliest deadline; None if there is none."""
        self._tidy()
        return self._queue[0][0] if self._queue else None

    def due(self, now_ms: float) -> Iterator[K]:
        """Remove and yield each key whose deadline is not after `now_ms`, the earliest first.

        Deadlines that change meanwhile count. What is scheduled meanwhile is left for the next
        call, so a key that is scheduled again and again at once does not hold up the caller.
        """
        last = self._sequence
        while (at := self.next_ms()) is not None and at <= now_ms:
            _, sequence, key = self._queue[0]
            if sequence > last:
                return
            heapq.heappop(self._queue)
            del self._queued[key]
            del self._deadlines[key]
            yield key

    def _enqueue(self, key: K, deadline_ms: float) -> None:
        self._sequence += 1
        self._queued[key] = (deadline_ms, self._sequence)
        heapq.heappush(self._queue, (deadline_ms, self._sequence, key))

    def _tidy(self) -> None:
        """Bring an entry with its true deadline to the front of the queue."""
        while self._queue:
            at, sequence, key = self._queue[0]
            deadline = self._deadlines.get(key)
            superseded = self._queued.get(key) != (at, sequence)
            if not superseded and deadline == at:
                return
            heapq.heappop(self._queue)
            if superseded:
                continue
            del self._queued[key]
            if deadline is not None:
                self._enqueue(key, deadline)
