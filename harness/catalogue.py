"""The catalogue for people: every fault, every target expression, every condition."""

from typing import Any

from rich.console import Group
from rich.table import Table

from nemesis.conditions import FORMS
from nemesis.fault import Fault
from nemesis.faults import FAULTS
from nemesis.targets import EXPRESSIONS


def tables() -> Group:
    """Three tables for the terminal."""
    faults = _table("fault", "what it does", "parameters", "needs", "targets", title="faults")
    for fault in FAULTS.values():
        faults.add_row(
            fault.name,
            fault.about,
            "\n".join(f"{o.name} = {o.default or '(none)'}: {o.about}" for o in fault.options),
            ", ".join(sorted(fault.needs)),
            fault.default_targets + ("" if fault.aimable else " only" if _fixed(fault) else ""),
        )
    aims = _table("expression", "whom it means", title="targets")
    for expression, about in EXPRESSIONS.items():
        aims.add_row(expression, about)
    conditions = _table("condition", "when it holds", title="conditions, for `until`")
    for form, about in FORMS.items():
        conditions.add_row(form, about)
    return Group(faults, "", aims, "", conditions)


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


def _fixed(fault: Fault) -> bool:
    """A shape over all nodes is the same whoever it is aimed at."""
    return fault.default_targets == "all"


def _table(*heads: str, title: str) -> Table:
    return Table(*heads, title=title, title_justify="left", box=None, header_style="bold underline")
