"""A plan and the events of its faults, which a search changes together."""

from dataclasses import dataclass, replace
from typing import Any

from harness.plans.plan import Plan
from nemesis.schedule import Event, Schedule, scripted


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan, and the events that replace those it would draw.

    The events stay out of the plan: of a plan that lists its events, each has to take effect.
    """

    plan: Plan
    events: tuple[Event, ...]

    def with_settings(self, **changes: Any) -> "Draft":
        """Return the draft with another plan."""
        return replace(self, plan=self.plan.model_copy(update=changes))

    def schedule(self) -> Schedule:
        """Return the schedule of its run. Raises NemesisError."""
        free = [event.model_copy(update={"id": -1, "nodes": None}) for event in self.events]
        end_ms = round(self.plan.duration_s * 1000)
        return scripted(free, seed=self.plan.seed, end_ms=end_ms)
