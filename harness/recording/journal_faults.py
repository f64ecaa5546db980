"""Rows of the table FAULTS for faults that only the journal of a run knows.

A fault gets its row in the table when it is over. Until then, and for ever when the harness died
before, the journal says what was done.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any, Final

from harness.recording.journal import Record
from nemesis.faults.fault import Injection

_INJECTION: Final = tuple(field.name for field in fields(Injection))


class JournalledFaults:
    """The rows (schema FAULTS) of the faults that are only in the journal, by fault id."""

    def __init__(self) -> None:
        self._rows: dict[object, dict[str, Any]] = {}

    def add(self, entries: Iterable[Record]) -> None:
        """Add these records of the journal."""
        for entry in entries:
            fault_id = entry.get("fault_id")
            match entry["kind"]:
                case "fault":
                    self._rows[fault_id] = _row_of(entry)
                case "fault-effective" if fault_id in self._rows:
                    self._rows[fault_id] |= {
                        "effective_ns": entry["at_ns"],
                        "effect": entry["effect"],
                        "damaged": entry.get("damaged"),
                        "took_effect": True,
                    }
                case "fault-healed" if fault_id in self._rows:
                    healing = entry.get("healing")
                    self._rows[fault_id] |= {"healed_ns": entry["at_ns"], "healing": healing}

    def remove(self, recorded: Iterable[object]) -> None:
        """Remove the faults with these ids, because the table has them."""
        for fault_id in recorded:
            self._rows.pop(fault_id, None)

    def rows(self) -> Collection[dict[str, Any]]:
        """Return one row per fault, in the order in which the faults began."""
        return self._rows.values()


def _row_of(entry: Record) -> dict[str, Any]:
    injection = {key: entry[key] for key in _INJECTION if key in entry}
    return {
        "fault_id": entry["fault_id"],
        "fault": entry["fault"],
        "label": entry["label"],
        "targets": json.dumps(injection, sort_keys=True),
        "planned_ms": entry["planned_ms"],
        "started_ns": entry["at_ns"],
        "took_effect": False,
        "error": "the harness ended before the fault did; this row is from its journal",
    }
