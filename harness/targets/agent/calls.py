"""Calls of a protocol's methods as JSON lines, encoded by the methods' own annotations.

    {"id": "7", "call": "Disks.read", "arguments": {"node": 1, ...}}
    {"id": "7", "result": ...}   or   {"id": "7", "error": "NodeState", "said": "..."}

Harness and agent have the same source, so the methods' signatures are the format's only definition.
"""

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_type_hints

import pydantic_core
from pydantic import ConfigDict, TypeAdapter

from harness.targets import base

Line = Mapping[str, Any]
Method = Callable[..., Any]

_AS_BASE64: Final = ConfigDict(val_json_bytes="base64")


def request(number: str, method: Method, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Return the line that calls `method`, a protocol's, on the machine."""
    bound = _signature(method).bind(None, *args, **kwargs).arguments
    arguments = dict(list(bound.items())[1:])
    return line({"id": number, "call": method.__qualname__, "arguments": arguments})


def arguments(method: Method, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the named arguments of a request. Raises ValueError."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in list(_signature(method).parameters.items())[1:]:
        if name not in given:
            continue
        match parameter.kind:
            case inspect.Parameter.VAR_POSITIONAL:
                positional += [_read(method, name, each) for each in given[name]]
            case inspect.Parameter.KEYWORD_ONLY:
                named[name] = _read(method, name, given[name])
            case _:
                positional.append(_read(method, name, given[name]))
    return positional, named


def result(method: Method, value: Any) -> Any:
    """Decode the machine's result by the method's annotation."""
    return _read(method, "return", value)


def line(content: Mapping[str, Any]) -> bytes:
    """Encode one line of JSON: bytes in base64, tuples and named tuples as lists."""
    return pydantic_core.to_json(content, bytes_mode="base64") + b"\n"


def error_reply(error: Exception) -> dict[str, Any]:
    """Return the fields of a reply that reports an exception."""
    if isinstance(error, OSError) and error.errno is not None:
        return {"error": "OSError", "errno": error.errno, "said": error.strerror or str(error)}
    name = type(error).__name__
    known = isinstance(getattr(base, name, None), type)
    return {"error": name if known else "TargetError", "said": str(error) or name}


def exception_of(reply: Line, where: str) -> Exception:
    """Return the exception of a reply; its text names the machine, `where`."""
    text = f"{where}: {reply['said']}"
    if reply["error"] == "OSError":
        return OSError(reply["errno"], text)
    kind: type[base.TargetError] = getattr(base, reply["error"], base.TargetError)
    return kind(text)


@functools.cache
def _signature(method: Method) -> inspect.Signature:
    return inspect.signature(method)


def _read(method: Method, name: str, value: Any) -> Any:
    return _adapter(method, name).validate_json(json.dumps(value))


@functools.cache
def _adapter(method: Method, name: str) -> TypeAdapter[Any]:
    hint = get_type_hints(method)[name]
    return TypeAdapter(hint, config=_AS_BASE64) if hint is bytes else TypeAdapter(hint)
