"""A compact set of sequence numbers: a bounded number of intervals.

Beyond the bound the set forgets its lowest interval: for numbers below `floor` it does not know any
more whether they were added.
"""

from bisect import bisect_right
from enum import Enum, auto


class Seen(Enum):
    """The result of adding a number."""

    NEW = auto()
    AGAIN = auto()
    FORGOTTEN = auto()


class Intervals:
    """Numbers in at most `limit` intervals."""

    __slots__ = ("_begins", "_ends", "_limit", "floor")

    def __init__(self, limit: int) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []  # exclusive
        self._limit = limit
        self.floor = 0

    def __len__(self) -> int:
        """The number of intervals, which is the size of the set in memory."""
        return len(self._begins)

    def seen(self, number: int) -> bool:
        """Whether the number was certainly added."""
        at = bisect_right(self._begins, number) - 1
        return at >= 0 and number < self._ends[at]

    def add(self, number: int) -> Seen:
        """Add a number, and return whether it was there."""
        if number < self.floor:
            return Seen.FORGOTTEN
        after = bisect_right(self._begins, number)
        if after > 0 and number < self._ends[after - 1]:
            return Seen.AGAIN
        joins_below = after > 0 and self._ends[after - 1] == number
        joins_above = after < len(self._begins) and self._begins[after] == number + 1
        if joins_below and joins_above:
            self._ends[after - 1] = self._ends.pop(after)
            del self._begins[after]
        elif joins_below:
            self._ends[after - 1] = number + 1
        elif joins_above:
            self._begins[after] = number
        else:
            self._begins.insert(after, number)
            self._ends.insert(after, number + 1)
            self._forget()
        return Seen.NEW

    def _forget(self) -> None:
        if len(self._begins) > self._limit:
            del self._begins[0]
            del self._ends[0]
            self.floor = self._begins[0]
