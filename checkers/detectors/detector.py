"""What a detector consists of. The `registry` has all of them, also those of other packages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from checkers.contract.rules import Rule
from checkers.frames.census import Census
from checkers.frames.frames import Detect


class Words(NamedTuple):
    """A kind of anomaly in words. In `one` and `several`, `{n}` is the number of instances."""

    meaning: str
    """What the anomaly is: a sentence."""
    one: str
    """What the cluster did: `lost {n} acknowledged write`."""
    several: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """A detector's name, its function, and the rows that it needs.

    lacking: returns why there is nothing to judge, or None. decisive: whether a detector without
    anything to judge makes the verdict UNKNOWN, for a given plan.

    rules, words: only for a detector of another package: the rows of the contract about its kinds
    of anomalies, and each of these kinds in words.
    """

    name: str
    find: Detect
    lacking: Callable[[Census], str | None]
    decisive: Callable[[Mapping[str, Any]], bool] = lambda _: True
    rules: tuple[Rule, ...] = ()
    words: Mapping[str, Words] = field(default_factory=dict)
