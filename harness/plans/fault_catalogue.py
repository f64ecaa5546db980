"""The catalogue that `highwater faults` prints: every fault, selector and condition."""

from collections.abc import Mapping
from typing import Any

from nemesis.conditions import FORMS
from nemesis.faults.catalogue import FAULTS, OF_OTHERS, find
from nemesis.faults.fault import Fault
from nemesis.selectors import SELECTORS


def text() -> str:
    """Return the three lists for the terminal."""
    faults = [line for fault in FAULTS.values() for line in _lines(fault)]
    return "\n".join(
        [
            "faults, with their parameters and default targets",
            *faults,
            "",
            "targets, resolved when the fault is injected",
            *_pairs(SELECTORS),
            "",
            "conditions for `until`; join several with `and`",
            *_pairs(FORMS),
            *(f"\nleft out: {problem}" for problem in OF_OTHERS.problems),
        ]
    )


def describe(name: str) -> str:
    """Return one fault with its parameters. Raises UnknownFault."""
    return "\n".join(_lines(find(name)))


def _lines(fault: Fault) -> list[str]:
    needs = ", ".join(sorted(fault.needs))
    selector = fault.default_selector
    if not fault.selectable:
        selector += " (a random mix does not choose others)"
    smallest = f"; at least {fault.min_nodes} nodes" if fault.min_nodes > 1 else ""
    return [
        f"  {fault.name}: {fault.about}",
        f"      targets {selector}; needs {needs}{smallest}",
        *(f"      {o.name} = {o.default or '(empty)'}: {o.about}" for o in fault.options),
    ]


def _pairs(found: Mapping[str, str]) -> list[str]:
    width = max(map(len, found))
    return [f"  {name.ljust(width)}  {about}" for name, about in found.items()]


def as_json(name: str | None = None) -> dict[str, Any]:
    """Return the same three lists as JSON-able data; with a name only this fault, alone.

    Raises UnknownFault.
    """
    if name is not None:
        return _fault(find(name))
    return {
        "faults": [_fault(fault) for fault in FAULTS.values()],
        "targets": dict(SELECTORS),
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
        "default_targets": fault.default_selector,
        "aimable": fault.selectable,
        "min_nodes": fault.min_nodes,
    }
