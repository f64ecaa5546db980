"""Systems, targets, client programs and kinds of workloads of other packages, which plans name as
they name ours.

A package declares them by entry points. The name of the entry point is the name in plans. The
module that it names is loaded when a plan uses the name, and then an error is a PlanError.

| group | the entry point names | a plan says |
|---|---|---|
| `highwater.systems` | a function from a `Plan` to a `BrokerProgram` | `system = "NAME"` |
| `highwater.targets` | a `PluggedTarget` (harness.targets.plugged) | `target = "NAME"` |
| `highwater.clients` | a function that returns a client program's command | `client = "NAME"` |
| `highwater.workloads` | a `WorkloadKind` (harness.plans.workload_kind) | `kind = "NAME"` |
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from harness.plans.errors import PlanError

SYSTEMS: Final = "highwater.systems"
TARGETS: Final = "highwater.targets"
CLIENTS: Final = "highwater.clients"
WORKLOADS: Final = "highwater.workloads"

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class OneOf:
    """The type of a key in a plan: one of our own names, or a name that a package declares."""

    own: tuple[str, ...]
    group: str

    def names(self) -> tuple[str, ...]:
        """Return all names, our own first."""
        return (*self.own, *_points(self.group, self.own))

    def has(self, name: str) -> bool:
        """Whether a package declares the name, and not highwater itself."""
        return name not in self.own and name in _points(self.group, self.own)

    def load(self, name: str) -> Any:
        """Return what the package declares by this name. Raises PlanError."""
        point = _points(self.group, self.own)[name]
        try:
            return point.load()
        except Exception as error:
            raise PlanError(_problem(point, f"{type(error).__name__}: {error}")) from error

    def packages(self) -> dict[str, str]:
        """Return the package of each name that a package declares."""
        return {name: _package(each) for name, each in _points(self.group, self.own).items()}

    def problems(self) -> list[str]:
        """Return which declared names cannot be used, and why."""
        points = _points(self.group, self.own)
        found = [
            _problem(each, _why_not(each.name, self.own))
            for each in _declared(self.group)
            if points.get(each.name) is not each
        ]
        for name in points:
            try:
                self.load(name)
            except PlanError as error:
                found.append(str(error))
        return found

    def problem(self, name: str, why: str) -> str:
        """Return that what a package declares by this name cannot be used, and why."""
        return _problem(_points(self.group, self.own)[name], why)

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._check, serialization=core_schema.to_string_ser_schema()
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.own)}

    def _check(self, value: object) -> str:
        names = self.names()
        if isinstance(value, str) and value in names:
            return value
        quoted = [f"'{name}'" for name in names]
        expected = f"{', '.join(quoted[:-1])} or {quoted[-1]}"
        raise PydanticCustomError(
            "literal_error", "Input should be {expected}", {"expected": expected}
        )


@cache
def _declared(group: str) -> Sequence[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda each: (each.name, each.value))


@cache
def _points(group: str, own: tuple[str, ...]) -> dict[str, EntryPoint]:
    """The entry points that can be used, by their names."""
    found: dict[str, EntryPoint] = {}
    for point in _declared(group):
        if point.name not in own and _NAME.fullmatch(point.name):
            found.setdefault(point.name, point)
    return found


def _why_not(name: str, own: Sequence[str]) -> str:
    if not _NAME.fullmatch(name):
        return "its name must have small letters, digits, dots and hyphens only"
    whose = "of highwater's own" if name in own else "of another package"
    return f"there is a {name} {whose}; give it another name"


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "?"


def _problem(point: EntryPoint, why: str) -> str:
    return (
        f"the entry point {point.name} ({point.group}) of package {_package(point)} cannot be "
        f"used: {why}"
    )
