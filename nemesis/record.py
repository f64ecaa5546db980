"""What became of planned faults: rows of the record of faults, and what later events may ask."""

import json
from dataclasses import dataclass, field
from typing import Final

from nemesis import conditions
from nemesis.faults.fault import Strike
from nemesis.schedule import Event
from nemesis.selectors import Resolved

SEEN_NS: Final = 2_000_000_000
"""After so long, what is known of the cluster is of after an event."""


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


@dataclass(frozen=True, slots=True)
class Struck:
    """The events that struck so far. See `nemesis.base.Past`."""

    records: list[FaultRecord] = field(default_factory=list)

    def add(self, record: FaultRecord) -> None:
        """One more event strikes now."""
        self.records.append(record)

    def took(self, event: str) -> bool:
        """Whether such an event has its proof of effect."""
        return any(record.effective_ns is not None for record in self._of(event))

    def healed(self, event: str) -> bool:
        """Whether such an event is healed."""
        return any(record.healed_ns is not None for record in self._of(event))

    def turn_is_over(self, now_ns: int) -> bool:
        """Whether the events that struck in turn (`conditions`) are over, and have been for so long
        that the cluster was asked since.
        """
        return all(
            record.healed_ns is not None and now_ns - record.healed_ns >= SEEN_NS
            for record in self.records
            if record.event.until and conditions.parse(record.event.until).in_turn
            if record.healed_ns is not None or record.error is None
        )

    def _of(self, name: str) -> list[FaultRecord]:
        return [record for record in self.records if name in record.event.names]
