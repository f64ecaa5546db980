"""The outcome of every event: the rows of the fault table, and facts for conditions."""

import json
from dataclasses import dataclass, field
from typing import Final

from nemesis import conditions
from nemesis.faults.fault import Injection, Measurement
from nemesis.schedule import Event
from nemesis.selectors import Selection

VIEW_LAG_NS: Final = 2_000_000_000
"""So long after an event, the view of the cluster no longer shows the state before the event."""


@dataclass(slots=True, kw_only=True)
class FaultRecord:
    """The outcome of one event; the columns of the fault table."""

    event: Event
    label: str
    selection: Selection | None = None
    """The nodes that the event's selector chose, and why."""
    injection: Injection | None = None
    started_ns: int | None = None
    effective_ns: int | None = None
    healed_ns: int | None = None
    inject_ms: float | None = None
    """How long the injection took, without its journal entry and its measurement."""
    heal_ms: float | None = None
    """How long the successful heal took."""
    effect: str | None = None
    damaged: str | None = None
    """JSON: node -> the files that the fault changed."""
    healing: str | None = None
    """The evidence that the heal worked."""
    error: str | None = None

    def row(self) -> dict[str, object]:
        """The record as a row: times in ns since the run's start, `targets` as JSON."""
        targets: dict[str, object] = {"asked": self.event.targets}
        if self.selection is not None and self.injection is not None:
            targets |= {"resolved": self.selection.reason, "meant": list(self.selection.nodes)}
            targets |= self.injection.as_json()
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
            "damaged": self.damaged,
            "healing": self.healing,
            "took_effect": self.effective_ns is not None,
            "error": self.error,
        }

    def measured(self, effect: Measurement) -> None:
        """Keep what was measured of the effect."""
        self.effect = effect.evidence
        self.damaged = None if effect.damaged is None else json.dumps(effect.damaged)

    def failed(self, what: str) -> None:
        """Add an error to those already recorded."""
        self.error = what if self.error is None else f"{self.error}; {what}"


@dataclass(frozen=True, slots=True)
class InjectedEvents:
    """The events injected so far. See `nemesis.base.EventOutcomes`."""

    records: list[FaultRecord] = field(default_factory=list)

    def add(self, record: FaultRecord) -> None:
        """Add an event that is being injected."""
        self.records.append(record)

    def took_effect(self, event: str) -> bool:
        """Whether the effect of such an event has been measured."""
        return any(record.effective_ns is not None for record in self._of(event))

    def healed(self, event: str) -> bool:
        """Whether such an event is healed."""
        return any(record.healed_ns is not None for record in self._of(event))

    def serial_events_are_over(self, now_ns: int) -> bool:
        """Whether all one-at-a-time events (see `conditions`) were healed VIEW_LAG_NS ago."""
        return all(
            record.healed_ns is not None and now_ns - record.healed_ns >= VIEW_LAG_NS
            for record in self.records
            if record.event.until and conditions.parse(record.event.until).one_at_a_time
            if record.healed_ns is not None or record.error is None
        )

    def _of(self, name: str) -> list[FaultRecord]:
        return [record for record in self.records if name in record.event.names]
