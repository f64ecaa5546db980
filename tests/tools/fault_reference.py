"""The page of the faults, made from their catalogue; see `reference_pages`."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

from harness.plans import fault_catalogue
from harness.targets import doctor
from harness.targets.abilities import NEEDS
from nemesis.faults import fault as faults

NEEDS_ROOT: Final = {"loop", "freeze", "disk-limits"}
"""Capabilities of a machine that a user namespace does not give."""
IMPOSSIBLE: Final = {"failed-syncs", "hypervisor"}
"""Capabilities that no machine has for its own nodes."""


def faults_page() -> str:
    """Every fault with its parameters, every selector, every condition."""
    lines = [
        "# Faults",
        "",
        "A plan names faults in a random mix (`nemesis.faults`) or in scripted events",
        "(`[[nemesis.events]]`). `highwater faults` prints this list, `highwater doctor` says",
        "which of them this machine can make. A fault counts only if a measurement proves that it",
        "took effect, and its end is proved as well. [How to add one](guides/add-a-fault.md).",
        "",
        "This page is made from the code by `python -m tests.tools.reference_pages`.",
        "",
        "## All faults",
        "",
        "| fault | does | selects by default | needs | parameters |",
        "|---|---|---|---|---|",
    ]
    known = fault_catalogue.as_json()
    lines += [_fault_row(fault) for fault in known["faults"]]
    lines += [
        *_needs(),
        "",
        "## Selectors: which nodes a fault hits",
        "",
        "| selector | nodes |",
        "|---|---|",
    ]
    lines += [f"| `{form}` | {meaning} |" for form, meaning in known["targets"].items()]
    lines += [
        "",
        "## Conditions: what a scripted event waits for (`until`)",
        "",
        "Several conditions are joined by `and`.",
        "",
        "| condition | holds when |",
        "|---|---|",
    ]
    lines += [f"| `{form}` | {meaning} |" for form, meaning in known["conditions"].items()]
    return "\n".join(lines) + "\n"


def _fault_row(fault: Mapping[str, Any]) -> str:
    parameters = "<br>".join(
        f"`{each['name']} = {each['default'] or '(empty)'}`: {each['about']}"
        for each in fault["parameters"]
    )
    needs = ", ".join(f"`{each}`" for each in fault["needs"])
    smallest = f"; at least {fault['min_nodes']} nodes" if fault["min_nodes"] > 1 else ""
    selector = f"`{fault['default_targets']}`"
    return (
        f"| `{fault['name']}` | {fault['about']}{smallest} | {selector} | {needs} | {parameters} |"
    )


def _needs() -> Iterator[str]:
    """A row for each ability of a target: what it is, and what it takes."""
    yield from ("", "## What the faults need", "")
    yield "`highwater doctor` tries all of this on your machine. Containers, machines by SSH and"
    yield "virtual machines need the same, there. A simulated cluster needs nothing."
    yield "Without root, everything needs user namespaces"
    yield f"(`{doctor._PROBES['userns'].how_to_get}`)."
    yield from (
        "",
        "| needs | the target must | root | if this machine lacks it |",
        "|---|---|---|---|",
    )
    for ability, about in _abilities().items():
        wanted = NEEDS[ability]
        root = "yes" if NEEDS_ROOT & {*wanted} else "-" if IMPOSSIBLE & {*wanted} else "no"
        remedies = "<br>".join(doctor._PROBES[name].how_to_get for name in wanted)
        yield f"| `{ability}` | {about} | {root} | {remedies} |"


def _abilities() -> dict[faults.Ability, str]:
    """Ability -> the docstring of its member."""
    tree = ast.parse(inspect.getsource(faults.Ability))
    assert isinstance(tree.body[0], ast.ClassDef)
    members = [each.value for each in tree.body[0].body[1:] if isinstance(each, ast.Expr)]
    texts = [ast.literal_eval(each) for each in members]
    return dict(zip(faults.Ability, texts, strict=True))
