"""Keys, numbers and lists in the maps of Jepsen's operations: how each is read and checked."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from checkers.interchange.edn import Keyword
from checkers.interchange.errors import InterchangeError

Key: TypeAlias = int | str
"""A partition, by the name that Jepsen's client gave it; mostly a number."""

MAX_NUMBER: Final = (1 << 63) - 1
MAX_OFFSET: Final = MAX_NUMBER - 1
"""Behind it there is room for one more."""


def key_of(key: Any) -> Key:
    """A key. Raises InterchangeError."""
    match key:
        case bool():
            pass
        case int():
            return key
        case str():
            # JSON has no other keys than strings.
            return int(key) if not isinstance(key, Keyword) and key.isdecimal() else key
    raise InterchangeError(f"a key is {key!r}; expected a number or a name")


def natural(value: Any, what: str, greatest: int = MAX_NUMBER) -> int:
    """A whole number that is not negative. Raises InterchangeError that says what it should be."""
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= greatest
    expect(fits, what, f"a whole number from 0 to {greatest}", value)
    return int(value)


def items(value: Any, what: str) -> Sequence[Any]:
    """The elements of a vector. Raises InterchangeError."""
    if isinstance(value, tuple | list):
        return value
    raise InterchangeError(f"{what} is {value!r}; expected a vector")


def expect(fits: bool, what: str, expected: str, found: Any) -> None:
    """Raises InterchangeError unless what was found fits."""
    if not fits:
        missing = "missing" if found is None else repr(found)
        raise InterchangeError(f"{what} is {missing}; expected {expected}")
