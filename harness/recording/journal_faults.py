"""Faults as far as the journal of a run knows them, as rows of the record of faults.

The record has a fault when it is over; until then, and where the harness died first, the journal
says what was done.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any, Final

from harness.recording.journal import Record
from nemesis.faults.fault import Strike

_STRIKE: Final = tuple(field.name for field in fields(Strike))


class Journalled:
    """The rows (schema FAULTS) of faults that are only in the journal, by their numbers."""

    def __init__(self) -> None:
        self._rows: dict[object, dict[str, Any]] = {}

    def take(self, entries: Iterable[Record]) -> None:
        """Go on with these records of the journal."""
        for entry in entries:
            number = entry.get("fault_id")
            match entry["kind"]:
                case "fault":
                    self._rows[number] = _begun(entry)
                case "fault-effective" if number in self._rows:
                    self._rows[number] |= {
                        "effective_ns": entry["at_ns"],
                        "effect": entry["effect"],
                        "took_effect": True,
                    }
                case "fault-healed" if number in self._rows:
                    healing = entry.get("healing")
                    self._rows[number] |= {"healed_ns": entry["at_ns"], "healing": healing}

    def forget(self, recorded: Iterable[object]) -> None:
        """Leave out the faults of these numbers: the record has them."""
        for number in recorded:
            self._rows.pop(number, None)

    def rows(self) -> Collection[dict[str, Any]]:
        """One for each fault, in the order in which they began."""
        return self._rows.values()


def _begun(entry: Record) -> dict[str, Any]:
    aimed = {key: entry[key] for key in _STRIKE if key in entry}
    return {
        "fault_id": entry["fault_id"],
        "fault": entry["fault"],
        "label": entry["label"],
        "targets": json.dumps(aimed, sort_keys=True),
        "planned_ms": entry["planned_ms"],
        "started_ns": entry["at_ns"],
        "took_effect": False,
        "error": "the harness ended before the fault did; this is from its journal",
    }
