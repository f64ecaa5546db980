"""A broken broker, and the schedules that show what is wrong with it.

A collection is a module with EXHIBITS; its exhibits are found by their names.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.brokers.modules import imported
from harness.plans.plan import PlanError

Script = Callable[[int], str]
"""Plays a schedule of single messages in the simulated world of a seed, on the broker as it is in
this process; returns what broke, and nothing if all went as it must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One broken broker."""

    name: str
    bug: str
    sources: tuple[str, ...]
    shows: tuple[str, ...]
    """The kinds of anomalies by which it may show."""
    module: str
    """What `python -m` starts, and whose apply() breaks the brokers of a process."""
    scenario: Path | None = None
    """A plan that shows it, on every target."""
    script: Script | None = None
    """A schedule that shows it in simulated worlds only."""

    @property
    def is_safety(self) -> bool:
        """Whether it loses, repeats or changes something, and not only time."""
        return set(self.shows) != {"unavailable"}


def collection(module: str, names: Sequence[str] = ()) -> tuple[Exhibit, ...]:
    """The exhibits of a module, or those of these names. Raises PlanError."""
    try:
        found: Sequence[Exhibit] = imported(module).EXHIBITS
    except (ImportError, AttributeError) as error:
        raise PlanError(
            f"{module} is no collection of broken brokers: {error}; name a module with EXHIBITS, "
            "such as harness.zoo.entries of the source tree"
        ) from error
    known = {exhibit.name: exhibit for exhibit in found}
    if unknown := [name for name in names if name not in known]:
        raise PlanError(f"{module} has no {', '.join(unknown)}; it has {', '.join(known)}")
    return tuple(known[name] for name in names or known)
