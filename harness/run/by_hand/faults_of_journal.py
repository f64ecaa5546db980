"""Which faults a cluster that is broken by hand has, by its journal. Pure."""

from collections.abc import Iterable
from typing import Any

from harness.recording.journal import Record

Row = dict[str, Any]


def list_faults(records: Iterable[Record]) -> list[Row]:
    """Return a row for each fault of a journal: id, fault, label, state (`in force` or `healed`),
    effect and healing (the proofs).
    """
    rows: dict[object, Row] = {}
    for entry in records:
        fault_id = entry.get("fault_id")
        if entry["kind"] == "fault":
            rows[fault_id] = {
                "id": fault_id,
                "fault": entry["fault"],
                "label": entry["label"],
                "state": "in force",
                "effect": None,
                "healing": None,
            }
        elif entry["kind"] == "fault-effective" and fault_id in rows:
            rows[fault_id]["effect"] = entry["effect"]
        elif entry["kind"] == "fault-healed" and fault_id in rows:
            rows[fault_id] |= {"state": "healed", "healing": entry.get("healing")}
    return list(rows.values())


def unhealed(records: Iterable[Record]) -> dict[object, Record]:
    """Return the records of the faults that were never healed, by id."""
    found: dict[object, Record] = {}
    for entry in records:
        if entry["kind"] == "fault":
            found[entry["fault_id"]] = entry
        elif entry["kind"] == "fault-healed":
            found.pop(entry["fault_id"], None)
    return found
