"""Which fault was there when a tested program lost, repeated or moved an output. Pure.

A fault of the program itself goes first, then the fault that began last. That a fault was there
does not prove that it is the cause, so the words only give the times.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

PROGRAM: Final = "app."
"""How the names of faults of the program begin."""
AFTER_NS: Final = 10_000_000_000
"""An input that is lost is read, and given up, some time after it was sent."""


class Moment(StrEnum):
    """What happened at the first time of an anomaly."""

    SENT = "sent"
    WRITTEN = "written"


def fault_near(
    faults: Sequence[Mapping[str, Any]], from_ns: int, until_ns: int
) -> Mapping[str, Any] | None:
    """Return the row of the fault (columns of FAULTS) that was in force in a time span, or None."""
    there = [
        row
        for row in faults
        if row["started_ns"] is not None
        and row["took_effect"]
        and row["started_ns"] <= until_ns
        and (row["healed_ns"] is None or row["healed_ns"] >= from_ns)
    ]

    def order(row: Mapping[str, Any]) -> tuple[bool, bool, int]:
        later = row["started_ns"] >= from_ns
        away_ns = abs(row["started_ns"] - from_ns)
        return not str(row["fault"]).startswith(PROGRAM), not later, away_ns

    return min(there, key=order, default=None)


def told(faults: Sequence[Mapping[str, Any]], example: Mapping[str, Any], kind: Moment) -> str:
    """Return when the first instance of an anomaly was, and which fault was there. Empty without a
    time."""
    from_ns, until_ns = example.get("invoke_ns"), example.get("complete_ns")
    if from_ns is None:
        return ""
    until_ns = from_ns if until_ns is None else until_ns
    text = f"the first was {kind} at {_seconds(from_ns)}"
    if kind is Moment.WRITTEN and until_ns > from_ns:
        text += f" and again at {_seconds(until_ns)}"
    else:
        until_ns += AFTER_NS
    fault = fault_near(faults, from_ns, until_ns)
    if fault is None:
        return f"{text}, when no fault was near"
    name, from_s = fault["label"] or fault["fault"], _seconds(fault["started_ns"])
    span = from_s if fault["healed_ns"] is None else f"{from_s} to {_seconds(fault['healed_ns'])}"
    return f"{text}, near fault {fault['fault_id']} ({name}, {span})"


def _seconds(at_ns: int) -> str:
    return f"{at_ns / 1e9:.3f} s"
