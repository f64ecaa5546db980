"""The catalogue for people: every fault, every target expression, every condition."""

from collections.abc import Mapping
from typing import Any

from nemesis.conditions import FORMS
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Fault
from nemesis.selectors import EXPRESSIONS


def text() -> str:
    """Three lists for the terminal."""
    faults = [line for fault in FAULTS.values() for line in _lines(fault)]
    return "\n".join(
        [
            "faults, with their parameters, and what they are aimed at unless a plan says it",
            *faults,
            "",
            "targets, looked up when the fault strikes",
            *_pairs(EXPRESSIONS),
            "",
            "conditions, for `until`; several are joined by `and`",
            *_pairs(FORMS),
        ]
    )


def _lines(fault: Fault) -> list[str]:
    needs = ", ".join(sorted(fault.needs))
    aim = fault.default_targets + ("" if fault.aimable else " (a mix does not aim it)")
    smallest = f"; at least {fault.min_nodes} nodes" if fault.min_nodes > 1 else ""
    return [
        f"  {fault.name}: {fault.about}",
        f"      targets {aim}; needs {needs}{smallest}",
        *(f"      {o.name} = {o.default or '(empty)'}: {o.about}" for o in fault.options),
    ]


def _pairs(found: Mapping[str, str]) -> list[str]:
    width = max(map(len, found))
    return [f"  {name.ljust(width)}  {about}" for name, about in found.items()]


def as_json() -> dict[str, Any]:
    """The same for programs."""
    return {
        "faults": [_fault(fault) for fault in FAULTS.values()],
        "targets": dict(EXPRESSIONS),
        "conditions": dict(FORMS),
    }


def _fault(fault: Fault) -> dict[str, Any]:
    return {
        "name": fault.name,
        "about": fault.about,
        "parameters": [
            {"name": option.name, "default": option.default, "about": option.about}
            for option in fault.options
        ],
        "needs": sorted(fault.needs),
        "default_targets": fault.default_targets,
        "aimable": fault.aimable,
        "min_nodes": fault.min_nodes,
    }
