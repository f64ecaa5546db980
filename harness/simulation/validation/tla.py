"""Traces as a TLA+ module, which TLC reads without any further library. Pure."""

from collections.abc import Mapping, Sequence, Set
from typing import Final

from harness.simulation.validation.traces import Trace

MODULE: Final = "Traces"


def expression(value: object) -> str:
    """Return a value in TLA+: numbers, truth values, texts, tuples, sets and records of them.

    Raises TypeError for anything else.
    """
    match value:
        case bool():
            return str(value).upper()
        case int():
            return str(int(value))
        case str():
            if not value.isprintable() or '"' in value or "\\" in value:
                raise TypeError(f"{value!r} cannot be a string of TLA+")
            return f'"{value}"'
        case Mapping():
            fields = ", ".join(f"{key} |-> {expression(each)}" for key, each in value.items())
            return f"[{fields}]"
        case Set():
            return "{" + ", ".join(sorted(map(expression, value))) + "}"
        case tuple() | list():
            return "<<" + ", ".join(map(expression, value)) + ">>"
    raise TypeError(f"{value!r} has no form in TLA+")


def module(traces: Sequence[Trace]) -> str:
    """Return the module `Traces`: the sequence of all traces, and their common constants."""
    lines = [f"---- MODULE {MODULE} ----"]
    lines += [f"Trace{name} == {expression(value)}" for name, value in traces[0].constants]
    texts = ("<<\n" + ",\n".join(map(expression, each.entries)) + "\n>>" for each in traces)
    lines += ["Traces == <<", ",\n".join(texts), ">>", "===="]
    return "\n".join(lines) + "\n"
