"""Mutants that change nothing that anybody could see, each with the reason: `explained.toml`.

A mutant is named there by what it changes and not by its number, because numbers move when the
module changes.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from harness.simulation.decisions.mutations import Mutation

FILE: Final = Path(__file__).with_name("explained.toml")
Change = tuple[str, str, str, str]
"""Module, function, and the source text before and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One entry of the file."""

    module: str
    function: str
    before: str
    after: str
    why: str

    @property
    def change(self) -> Change:
        """What the mutant changes."""
        return self.module, self.function, self.before, self.after


@cache
def entries() -> tuple[Explained, ...]:
    """Return all entries. Raises TypeError for one with unknown or missing keys."""
    return tuple(Explained(**each) for each in tomllib.loads(FILE.read_text())["mutant"])


@cache
def _reasons() -> Mapping[Change, str]:
    return {each.change: each.why for each in entries()}


def change(mutation: Mutation) -> Change:
    """Return what a mutation changes."""
    return mutation.module, mutation.function, mutation.before, mutation.after


def why(mutation: Mutation) -> str | None:
    """Return why nothing can find a mutant; None without an entry."""
    return _reasons().get(change(mutation))
