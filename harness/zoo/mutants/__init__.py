"""Brokers with one decision broken on purpose, each after a real bug; they measure the checkers.
The broker, the harness and the checkers do not know them. They run the broker's sources, also where
modules are compiled.

Each module overrides one decision of the broker. `python -m harness.zoo.mutants.NAME
server.properties` runs a node of it; `apply()` patches the broker in this process and returns a
function that undoes that.

Each module describes itself as plain data: BUG (a title), SOURCES (where the real bug is described)
and SHOWS (the kinds of anomalies that the bug can cause).
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from nodes.sources import use_sources

use_sources()  # before a mutant imports what it changes

_HELPERS = ("__init__", "patching")

NAMES = tuple(sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in _HELPERS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """The description of a mutant."""

    name: str
    bug: str
    sources: tuple[str, ...]
    shows: tuple[str, ...]
    apply: Callable[[], Callable[[], None]]
    """Patches the broker in this process; returns a function that undoes that."""

    @property
    def module(self) -> str:
        """The module that `python -m` runs as a node."""
        return f"{__name__}.{self.name}"


def load(name: str) -> Mutant:
    """Return the mutant of that name. Raises ImportError."""
    module = import_module(f"{__name__}.{name}")
    return Mutant(
        name=name,
        bug=module.BUG,
        sources=module.SOURCES,
        shows=module.SHOWS,
        apply=module.apply,
    )
