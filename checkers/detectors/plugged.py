"""Detectors of other packages: they are declared by the entry point group `highwater.detectors`.

An entry point names a `Detector`, or a tuple of them, with rows of the contract and words for each
kind of anomaly. A detector that cannot be used leaves a problem. Every verdict names the problems
and is not VALID, because what such a detector would have found is not known.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # its imports are slow, and most programs only ask whether there is a detector
    from checkers.detectors.detector import Detector

GROUP: Final = "highwater.detectors"


class Plugged(NamedTuple):
    """Detectors of other packages, and in words what could not be used."""

    detectors: tuple["Detector", ...]
    problems: tuple[str, ...]
    packages: Mapping[str, str]
    """The package of each detector, with its version."""


@cache
def installed() -> bool:
    """Whether a package declares a detector."""
    return bool(entry_points(group=GROUP))


def load(names: Collection[str], kinds: Collection[str]) -> Plugged:
    """Return the detectors of the installed packages. names, kinds: of other detectors."""
    return collect(entry_points(group=GROUP), names, kinds)


def collect(
    points: Iterable[EntryPoint], names: Collection[str], kinds: Collection[str]
) -> Plugged:
    """Return the detectors of these entry points, in the order of their names."""
    found: dict[str, Detector] = {}
    packages: dict[str, str] = {}
    taken, problems = set(kinds), []
    for point in sorted(points, key=lambda each: (each.name, each.value)):
        package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "?"
        try:
            several = _of(point)
            for detector in several:
                _check(detector, {*names, *found}, taken)
                found[detector.name] = detector
                packages[detector.name] = package
                taken |= {rule.anomaly for rule in detector.rules}
        except Exception as error:
            problems.append(
                f"the entry point {point.name} of package {package} cannot be used: "
                f"{type(error).__name__}: {error}"
            )
    return Plugged(tuple(found.values()), tuple(problems), packages)


def _of(point: EntryPoint) -> tuple["Detector", ...]:
    from checkers.detectors.detector import Detector

    loaded = point.load()
    several = loaded if isinstance(loaded, tuple) else (loaded,)
    for each in several:
        if not isinstance(each, Detector):
            raise TypeError(
                f"{point.value} is {each!r}, which is no Detector (checkers.detectors.detector)"
            )
    return several


def _check(detector: "Detector", names: Collection[str], kinds: Collection[str]) -> None:
    """Raise ValueError for a taken name, and for kinds of anomalies without rules or words."""
    if detector.name in names:
        raise ValueError(f"there is another detector {detector.name}; give it another name")
    own = dict.fromkeys(rule.anomaly for rule in detector.rules)
    if not own:
        raise ValueError(f"detector {detector.name} has no rules, so nothing judges what it finds")
    for kind in own:
        if kind in kinds:
            raise ValueError(
                f"detector {detector.name}: there is another anomaly {kind}; give it another name"
            )
        if kind not in detector.words:
            raise ValueError(f"detector {detector.name}: anomaly {kind} has no words")
