"""Targets of other packages: the entry point group `highwater.targets`.

An entry point names a `PluggedTarget`, and its name is the name in plans.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.plans.plan import TARGET_NAMES, Plan, PlanError
from harness.targets.kind import TargetKind
from harness.targets.linux.undo import Undo


@dataclass(frozen=True, slots=True, kw_only=True)
class PluggedTarget:
    """A target of another package."""

    kind: Callable[[Plan], TargetKind]
    """Returns the kind of target for a plan. Raises PlanError if the plan cannot use it."""
    undo: Mapping[str, Undo] = field(default_factory=dict)
    """How `highwater clean` removes what the target records in a run's journal, by the kind of
    record. Names begin with the target's own."""


def of(name: str) -> PluggedTarget:
    """Return the target of this name. Raises PlanError."""
    found = TARGET_NAMES.load(name)
    if not isinstance(found, PluggedTarget):
        raise PlanError(f"target {name}: {found!r} is no PluggedTarget (harness.targets.plugged)")
    return found


def undo() -> dict[str, Undo]:
    """Return how to undo what targets of other packages record. What a target recorded that
    cannot be loaded stays."""
    found: dict[str, Undo] = {}
    for name in TARGET_NAMES.packages():
        try:
            found |= of(name).undo
        except PlanError:
            continue
    return found
