"""Two indexes for look-ups by time or by number. A run of weeks has hundreds of thousands of
faults, leadership terms and epochs, and each is compared with the others.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Ordered(Protocol):
    """Such as integers, or tuples of them."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether it is less."""
        ...


V = TypeVar("V", bound=Ordered)


class IntervalIndex(Generic[T]):
    """Items that last from one moment to another, both included."""

    def __init__(self, intervals: Iterable[tuple[int, int, T]]) -> None:
        """intervals: first moment, last moment, item."""
        ordered = sorted(intervals, key=lambda interval: interval[0])
        self._items = [item for _, _, item in ordered]
        self._begins = [begin for begin, _, _ in ordered]
        self._latest = [[end for _, end, _ in ordered]]
        """The latest end of each item, of each two neighbours, of each four, and so on."""
        while len(below := self._latest[-1]) > 1:
            self._latest.append([max(below[n : n + 2]) for n in range(0, len(below), 2)])

    def overlapping(self, begin: int, end: int) -> Iterator[T]:
        """Yield the items that overlap the time from `begin` to `end`, ordered by their starts."""
        stop = bisect_right(self._begins, end)
        groups = [(len(self._latest) - 1, 0)]
        while groups:
            level, number = groups.pop()
            if number << level >= stop or self._latest[level][number] < begin:
                continue
            if level == 0:
                yield self._items[number]
                continue
            halves = range(2 * number, min(2 * number + 2, len(self._latest[level - 1])))
            groups += [(level - 1, half) for half in reversed(halves)]


class SuffixMinimum(Generic[V]):
    """The minimum of the values of a key and of all greater keys."""

    def __init__(self, pairs: Iterable[tuple[int, V]]) -> None:
        """pairs: key, value; values compare."""
        ordered = sorted(pairs, key=lambda pair: pair[0])
        self._keys = [key for key, _ in ordered]
        self._least = [
            *accumulate((value for _, value in reversed(ordered)), lambda a, b: min(a, b))
        ][::-1]

    def at(self, key: int) -> V | None:
        """Return the minimum for this key and all greater keys; None without any."""
        place = bisect_left(self._keys, key)
        return self._least[place] if place < len(self._least) else None
