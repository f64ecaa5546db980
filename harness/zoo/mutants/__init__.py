"""Brokers with one decision broken on purpose: what the checkers are measured by.

Each module overrides one decision of the broker, as a real bug of this field did. Two ways to use
one: `python -m harness.zoo.mutants.NAME server.properties` runs a node of it; `apply()` breaks the
broker
in this process and returns what takes that back. The broker itself knows nothing of them, and
neither do the harness and the checkers.

Every module says as plain data what it is: BUG (a title), SOURCES (where the real one is told), and
SHOWS (the kinds of anomalies by which clients, or what nodes leave behind, may show it).
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

_HELPERS = ("__init__", "patching")

NAMES = tuple(sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in _HELPERS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """What a module of this package says of itself."""

    name: str
    bug: str
    sources: tuple[str, ...]
    shows: tuple[str, ...]
    apply: Callable[[], Callable[[], None]]
    """Breaks the broker in this process; returns what mends it."""

    @property
    def module(self) -> str:
        """What `python -m` starts."""
        return f"{__name__}.{self.name}"


def load(name: str) -> Mutant:
    """The mutant of that name. Raises ImportError."""
    module = import_module(f"{__name__}.{name}")
    return Mutant(
        name=name,
        bug=module.BUG,
        sources=module.SOURCES,
        shows=module.SHOWS,
        apply=module.apply,
    )
