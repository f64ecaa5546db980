"""Faults of other packages: they are declared by the entry point group `highwater.faults`.

An entry point names a `Fault`, or a tuple of them. What cannot be used is left out, and why is told
where somebody looks for it: a broken package must not keep anybody from a run without its faults.
"""

from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NamedTuple

from nemesis.faults.fault import Fault

GROUP: Final = "highwater.faults"


class Plugged(NamedTuple):
    """Faults of other packages, and in words what could not be used."""

    faults: tuple[Fault, ...]
    problems: tuple[str, ...]
    packages: Mapping[str, str]
    """The package of each fault, with its version."""


def load(taken: Collection[str]) -> Plugged:
    """Return the faults of the installed packages. taken: the names of other faults."""
    return collect(entry_points(group=GROUP), taken)


def collect(points: Iterable[EntryPoint], taken: Collection[str]) -> Plugged:
    """Return the faults of these entry points, in the order of their names."""
    faults: dict[str, Fault] = {}
    packages: dict[str, str] = {}
    problems = []
    for point in sorted(points, key=lambda each: (each.name, each.value)):
        package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "?"
        try:
            for fault in _of(point):
                if fault.name in taken or fault.name in faults:
                    raise ValueError(f"there is another fault {fault.name}; give it another name")
                faults[fault.name] = fault
                packages[fault.name] = package
        except Exception as error:
            problems.append(
                f"the entry point {point.name} of package {package} cannot be used: "
                f"{type(error).__name__}: {error}"
            )
    return Plugged(tuple(faults.values()), tuple(problems), packages)


def _of(point: EntryPoint) -> tuple[Fault, ...]:
    found = point.load()
    faults = found if isinstance(found, tuple) else (found,)
    for fault in faults:
        if not isinstance(fault, Fault):
            raise TypeError(f"{point.value} is {fault!r}, which is no Fault (nemesis.faults.fault)")
    return faults
