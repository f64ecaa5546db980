"""Finding what concerns a moment or a place without going through all: a record of weeks has
hundreds of thousands of faults, reigns and epochs, and each is asked about the others.
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


class Spans(Generic[T]):
    """Items that last from a moment to another, both included."""

    def __init__(self, spans: Iterable[tuple[int, int, T]]) -> None:
        """spans: first moment, last moment, item."""
        ordered = sorted(spans, key=lambda span: span[0])
        self._items = [item for _, _, item in ordered]
        self._begins = [begin for begin, _, _ in ordered]
        self._latest = [[end for _, end, _ in ordered]]
        """Latest ends: of each item, of each two neighbours, of each four, and so on."""
        while len(below := self._latest[-1]) > 1:
            self._latest.append([max(below[n : n + 2]) for n in range(0, len(below), 2)])

    def meeting(self, begin: int, end: int) -> Iterator[T]:
        """Those that last at some moment from `begin` to `end`, by their beginnings."""
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


class LeastFrom(Generic[V]):
    """The least value from a key on."""

    def __init__(self, pairs: Iterable[tuple[int, V]]) -> None:
        """pairs: key, value; values compare."""
        ordered = sorted(pairs, key=lambda pair: pair[0])
        self._keys = [key for key, _ in ordered]
        self._least = [
            *accumulate((value for _, value in reversed(ordered)), lambda a, b: min(a, b))
        ][::-1]

    def at(self, key: int) -> V | None:
        """Of this key and all greater ones; None when there is none."""
        place = bisect_left(self._keys, key)
        return self._least[place] if place < len(self._least) else None
