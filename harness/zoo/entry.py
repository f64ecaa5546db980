"""One entry of the zoo: a broken broker, and the schedule and the scenario that show its bug.

A collection is a module with a tuple ENTRIES. `harness.zoo.entries` is the packaged one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.brokers.modules import imported
from harness.plans.plan import PlanError
from harness.plans.problems import nearest

Script = Callable[[int], str]
"""Plays a schedule of single messages in the simulated world of a seed, on the broker as it is
patched in this process. Returns what failed; an empty text means that nothing did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One broken broker."""

    name: str
    """The name of the mutant's module: its only name."""
    bug: str
    sources: tuple[str, ...]
    shows: tuple[str, ...]
    """The kinds of anomalies that the bug can cause."""
    module: str
    """The module that `python -m` runs as a node, and whose apply() patches this process."""
    scenario: Path | None = None
    """A plan that shows the bug, on every target; one with a tested program needs real
    processes."""
    script: Script | None = None
    """A schedule of single messages that shows the bug, in simulated worlds only."""

    @property
    def is_safety(self) -> bool:
        """Whether the bug breaks safety: it loses, repeats or changes data. A liveness bug only
        makes the cluster unavailable."""
        return set(self.shows) != {"unavailable"}

    @property
    def breaks(self) -> str:
        """Return "safety" or "liveness"."""
        return "safety" if self.is_safety else "liveness"

    def as_json(self) -> dict[str, Any]:
        """Return the entry as JSON-able data."""
        return {
            "name": self.name,
            "bug": self.bug,
            "sources": list(self.sources),
            "breaks": self.breaks,
            "anomalies": list(self.shows),
            "module": self.module,
            "scenario": None if self.scenario is None else self.scenario.stem,
            "schedule": self.script is not None,
        }


def load_entries(module: str, names: Sequence[str] = ()) -> tuple[Entry, ...]:
    """Return the entries with these names, or all entries of the collection without names.

    Raises PlanError.
    """
    try:
        found: Sequence[Entry] = imported(module).ENTRIES
    except (ImportError, AttributeError) as error:
        raise PlanError(
            f"{module} is not a collection of broken brokers: {error}; name a module that has "
            "ENTRIES, such as harness.zoo.entries"
        ) from error
    known = {entry.name: entry for entry in found}
    if unknown := [name for name in names if name not in known]:
        raise PlanError(
            f"there is no broken broker {', '.join(unknown)}{nearest(unknown[0], known)}; there "
            f"are {', '.join(known)}"
        )
    return tuple(known[name] for name in names or known)
