"""A hash of everything that happened in a run, in order: equal hashes mean equal runs.

The hash covers each event: the time, the host, the called function, the task. Labels are qualified
names, never reprs, because a repr has addresses. So a new name of a callback changes the hash.
Tasks are numbered by the world: without the numbers, two tasks of the same coroutine could swap
places without a difference.
"""

import hashlib
from array import array
from collections.abc import Callable
from types import MethodType
from typing import Any, Final

FLUSH_AT: Final = 1 << 15
"""How many numbers are collected before they are hashed."""


class Trace:
    """See the module. Each world has one."""

    def __init__(self) -> None:
        self.events = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self._numbers: list[int] = []
        self._labels: dict[str, int] = {}
        self._methods: dict[Callable[..., Any], int] = {}
        """The numbers of methods' labels, so that a method need not be asked for its name again."""

    def called(self, now_ns: int, host: int, callback: Callable[..., Any]) -> None:
        """Record an event whose callback is about to be called."""
        self.events += 1
        if type(callback) is MethodType:
            function, task = callback.__func__, 0
            number = self._methods.get(function)
            if number is None:
                number = self._methods[function] = self._number(function.__qualname__)
        else:
            number = self._number(
                getattr(callback, "__qualname__", None) or type(callback).__name__
            )
            task = getattr(getattr(callback, "__self__", None), "world_number", 0)
        self._numbers += (now_ns, host, number, task)
        if len(self._numbers) > FLUSH_AT:
            self._flush()

    def noted(self, now_ns: int, host: int, label: str, value: int = 0) -> None:
        """Record something that is not an event of its own: bytes that arrived, a kill."""
        number = self._labels.get(label)
        if number is None:
            number = self._number(label)
        self._numbers += (now_ns, host, number, value)

    def digest(self) -> str:
        """Return the hash of everything so far."""
        self._flush()
        return self._hash.hexdigest()

    def _number(self, label: str) -> int:
        number = self._labels.get(label)
        if number is None:
            self._flush()  # so that the label is hashed where it first occurred
            self._hash.update(label.encode())
            number = self._labels[label] = len(self._labels)
        return number

    def _flush(self) -> None:
        self._hash.update(array("Q", self._numbers))
        self._numbers.clear()
