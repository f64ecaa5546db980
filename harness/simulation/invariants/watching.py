"""Learns of every assignment to an attribute of an object, without its class knowing.

For the checks of a simulated run, which look at what an event changed and at nothing else. The
object's class is replaced by a subclass of it that tells; reading costs what it did before, and
what the object does is the same. Only for classes without `__slots__`. Whoever changes what an
attribute holds (a list, a dictionary) is not seen.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

NOTE: Final = "_watched_by"


def watch(thing: Any, note: Callable[[], None]) -> None:
    """Call `note` after each assignment to an attribute of `thing` from now on."""
    thing.__dict__[NOTE] = note
    kind: Any = type(thing)
    if not issubclass(kind, _Watched):
        thing.__class__ = _watched(kind)


class _Watched:
    """Marks the classes of what is watched."""

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        self.__dict__[NOTE]()


@cache
def _watched(kind: Any) -> Any:
    return type(kind.__name__, (_Watched, kind), {"__doc__": kind.__doc__})
