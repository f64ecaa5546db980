"""What pydantic found wrong with a plan, a suite or an inventory, in words: all of it.

One problem is one line: the path of the key, what is wrong, and for a key that does not exist the
keys that do. The module only writes text; the callers decide which error to raise.
"""

import json
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

MAX_SHOWN: Final = 200
"""Problems of one file that are written out. The rest is counted."""
MAX_VALUE_CHARACTERS: Final = 80

_GIVEN: Final = ", not "
"""What stands between the rule and the value that breaks it."""

_Path = tuple[str | int, ...]


def describe_problems(error: ValidationError, model: type[BaseModel], whole: str) -> str:
    """Return all problems: one as a sentence, several as a list with one line each.

    `model` is the class that was validated, and `whole` what a reader calls it.
    """
    problems = error.errors(include_url=False)
    found: dict[str, list[str]] = {}
    for problem in problems:
        if not _follows_from_others(problem, problems):
            path = _path(problem, model)
            place = ".".join(map(str, path)) if path else whole
            found.setdefault(place, []).append(_described(problem, path, model))
    lines = [f"{place}: {_either(texts)}" for place, texts in found.items()]
    if len(lines) == 1:
        return lines[0]
    shown = lines[:MAX_SHOWN]
    if len(lines) > MAX_SHOWN:
        shown.append(f"and {len(lines) - MAX_SHOWN} more")
    return "\n  ".join([f"{len(lines)} problems:", *shown])


def _follows_from_others(problem: ErrorDetails, problems: Sequence[ErrorDetails]) -> bool:
    """Whether a list is too short only because its items are wrong, which is reported itself."""
    place = problem["loc"]
    return problem["type"] == "too_short" and any(
        other["loc"][: len(place)] == place and len(other["loc"]) > len(place) for other in problems
    )


def _either(texts: Sequence[str]) -> str:
    """The texts of one value, which may have one for each branch of a union."""
    given = texts[-1].rpartition(_GIVEN)[2]
    suffix = f"{_GIVEN}{given}"
    if not all(text.endswith(suffix) for text in texts):
        return "; ".join(dict.fromkeys(texts))
    return " or ".join(dict.fromkeys(text.removesuffix(suffix) for text in texts)) + suffix


def _described(problem: ErrorDetails, path: _Path, model: type[BaseModel]) -> str:
    match problem["type"]:
        case "extra_forbidden":
            return _unknown_key(str(path[-1]), _keys(model, path[:-1]))
        case "missing":
            return "is missing"
        case "value_error":
            return str(problem["ctx"]["error"])
        case _:
            message, given = problem["msg"], json.dumps(problem["input"], default=str)
            text = f"{message[0].lower()}{message[1:]}{_GIVEN}{given[:MAX_VALUE_CHARACTERS]}"
            return text + _nearest_value(problem)


def _nearest_value(problem: ErrorDetails) -> str:
    """What `nearest` says of a text that is none of a few permitted ones."""
    if problem["type"] != "literal_error" or not isinstance(problem["input"], str):
        return ""
    return nearest(problem["input"], re.findall("'([^']*)'", problem["ctx"]["expected"]))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` with the known name that is nearest; empty if none is near."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _unknown_key(name: str, keys: Sequence[str]) -> str:
    return f"there is no such key{nearest(name, keys)} (keys here: {', '.join(keys)})"


def _keys(model: type[BaseModel], path: _Path) -> list[str]:
    """The keys of the table at `path`."""
    for candidate in _at(model, path):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return list(candidate.model_fields)
    return []


def _path(problem: ErrorDetails, model: type[BaseModel]) -> _Path:
    """The path of the key, without the steps that pydantic adds for the branches of a union."""
    steps = problem["loc"]
    unknown = steps[-1:] if problem["type"] == "extra_forbidden" else ()
    kept: _Path = ()
    for step in steps[: len(steps) - len(unknown)]:
        if _at(model, (*kept, step)):
            kept = (*kept, step)
    return (*kept, *unknown)


def _at(annotation: Any, path: _Path) -> list[Any]:
    """The types that the value at `path` may have; none when there is no such place."""
    found = _alternatives(annotation)
    for step in path:
        found = [inner for each in found for inner in _within(each, step)]
    return found


def _within(annotation: Any, step: str | int) -> list[Any]:
    """The types of what is at one key or index."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(str(step))
        return [] if field is None else _alternatives(field.annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict and isinstance(step, str):
        return _alternatives(arguments[1])
    if origin in (tuple, list) and isinstance(step, int):
        return [found for each in arguments if each is not ... for found in _alternatives(each)]
    return []


def _alternatives(annotation: Any) -> list[Any]:
    """An annotation without Annotated, as the list of a union's branches."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [found for each in get_args(annotation) for found in _alternatives(each)]
    return [annotation]
