"""Calls back after each assignment to an attribute of an object, without the knowledge of its
class.

The checks of a simulated run use this to examine only what an event changed. The object's class is
replaced by a subclass that calls back; reading costs nothing more, and the object behaves as
before. This works only for classes without `__slots__`. A change inside an attribute's value (a
list, a dictionary) is not noticed.
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
    """Marks the classes of watched objects."""

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        self.__dict__[NOTE]()


@cache
def _watched(kind: Any) -> Any:
    return type(kind.__name__, (_Watched, kind), {"__doc__": kind.__doc__})
