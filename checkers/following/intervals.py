"""A compact set of sequence numbers: a bounded number of intervals.

Beyond the bound the set forgets its lowest interval: for numbers below `floor` it does not know any
more whether they were added.
"""

from bisect import bisect_right
from enum import Enum, auto

import numpy as np

from checkers.following.columns import Flags, Ints


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

    @property
    def complete_below(self) -> int:
        """The least number that was not added, from 0 on; 0, too, if that is not known any more."""
        return self._ends[0] if self._begins and self._begins[0] == 0 else 0

    def all_seen(self, numbers: Ints) -> Flags:
        """The same for many numbers."""
        if not self._begins:
            return np.zeros(len(numbers), np.bool_)
        at = np.searchsorted(np.array(self._begins), numbers, side="right") - 1
        seen: Flags = (at >= 0) & (numbers < np.array(self._ends)[at])
        return seen

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

    def add_all(self, numbers: Ints) -> Flags:
        """Add many numbers, and return which of them certainly were there, or stand there again."""
        again = self.all_seen(numbers)
        order = np.argsort(numbers, kind="stable")
        ascending = numbers[order]
        repeated = np.zeros(len(numbers), np.bool_)
        repeated[1:] = ascending[1:] == ascending[:-1]
        self._join(ascending[~repeated & ~again[order] & (ascending >= self.floor)])
        again[order[repeated]] = True
        return again

    def _join(self, fresh: Ints) -> None:
        """Add numbers that are not there, in ascending order."""
        if not len(fresh):
            return
        begins = np.sort(np.concatenate((np.array(self._begins, np.int64), fresh)), kind="stable")
        ends = np.sort(np.concatenate((np.array(self._ends, np.int64), fresh + 1)), kind="stable")
        apart = begins[1:] != ends[:-1]
        begins = begins[np.concatenate(([True], apart))]
        ends = ends[np.concatenate((apart, [True]))]
        self._begins = begins[-self._limit :].tolist()
        self._ends = ends[-self._limit :].tolist()
        if len(begins) > self._limit:
            self.floor = self._begins[0]

    def _forget(self) -> None:
        if len(self._begins) > self._limit:
            del self._begins[0]
            del self._ends[0]
            self.floor = self._begins[0]
