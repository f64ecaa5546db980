"""The error codes in a broker's answer, at any depth. Pure."""

import dataclasses
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from kio.schema.errors import ErrorCode

OnAnswer = Callable[[str, str, Any], None]
"""Gets the broker (`host:port`), kio's name of the request, and the answer."""

_NONE: Final = ErrorCode.none


def failures(answer: Any) -> Iterator[ErrorCode]:
    """Yield the error codes of an answer, a value of kio's classes, without NONE."""
    kind: Any = type(answer)
    codes, parts = _fields(kind)
    for name in codes:
        if (code := getattr(answer, name)) is not _NONE:
            yield code
    for name in parts:
        for part in getattr(answer, name) or ():
            yield from failures(part)


@cache
def _fields(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the fields with an error code, and those whose parts may have some."""
    hints = typing.get_type_hints(kind)
    names = [each.name for each in dataclasses.fields(kind)]
    codes = tuple(name for name in names if hints[name] is ErrorCode)
    parts = tuple(name for name in names if any(map(_has_codes, _parts(hints[name]))))
    return codes, parts


def _parts(hint: Any) -> Iterator[Any]:
    """Yield the classes of the parts of a field: `tuple[Part, ...]`, which may be absent."""
    for each in typing.get_args(hint):
        if dataclasses.is_dataclass(each) and isinstance(each, type):
            yield each
        else:
            yield from _parts(each)


def _has_codes(kind: Any) -> bool:
    return any(_fields(kind))
