"""What became of a planned fault: one row of the record of faults."""

import json
from dataclasses import dataclass

from nemesis.fault import Strike
from nemesis.schedule import Event
from nemesis.targets import Resolved


@dataclass(slots=True, kw_only=True)
class FaultRecord:
    """What became of one event; the columns of the record of faults."""

    event: Event
    label: str
    found: Resolved | None = None
    """Whom the event's targets meant, and why these."""
    strike: Strike | None = None
    started_ns: int | None = None
    effective_ns: int | None = None
    healed_ns: int | None = None
    inject_ms: float | None = None
    """How long the injection took, without its journal entry and its proof."""
    heal_ms: float | None = None
    """How long the heal took that succeeded."""
    effect: str | None = None
    healing: str | None = None
    """The proof that the heal did what it should."""
    error: str | None = None

    def row(self) -> dict[str, object]:
        """The record as a row: times in ns since the run's start, `targets` as JSON."""
        targets: dict[str, object] = {"asked": self.event.targets}
        if self.found is not None and self.strike is not None:
            targets |= {"resolved": self.found.because, "meant": list(self.found.nodes)}
            targets |= self.strike.as_json()
        return {
            "fault_id": self.event.id,
            "fault": self.event.fault,
            "label": self.label,
            "targets": json.dumps(targets, sort_keys=True),
            "planned_ms": self.event.at_ms,
            "started_ns": self.started_ns,
            "effective_ns": self.effective_ns,
            "healed_ns": self.healed_ns,
            "inject_ms": self.inject_ms,
            "heal_ms": self.heal_ms,
            "effect": self.effect,
            "healing": self.healing,
            "took_effect": self.effective_ns is not None,
            "error": self.error,
        }

    def failed(self, what: str) -> None:
        """Add an error to those already recorded."""
        self.error = what if self.error is None else f"{self.error}; {what}"
