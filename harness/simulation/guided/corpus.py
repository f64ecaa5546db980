"""The drafts that reached something new, and which of them is changed next. Pure.

A draft is chosen by how rare the states are that it reached: states that one run in a thousand has
reached are where more may be hidden ("AFLFast", Böhme, Pham and Roychoudhury, 2016).
"""

import random
from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate

from harness.simulation.decisions.reached import Reached, State
from harness.simulation.guided.draft import Draft


@dataclass(frozen=True, slots=True)
class Entry:
    """A draft, and the states that its run reached."""

    draft: Draft
    states: frozenset[State]


class Corpus:
    """All entries, and how many runs reached each state."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._reached = Reached()
        self._weights: list[float] | None = None

    def add(self, draft: Draft, states: Collection[State], *, keep: bool = True) -> bool:
        """Count a run's states; keep its draft if they are new and `keep` is true. Return whether
        it was kept."""
        new = any(state not in self._reached.runs for state in states)
        self._reached.add(states)
        self._weights = None
        if new and keep:
            self.entries.append(Entry(draft, frozenset(states)))
        return new and keep

    def choose(self, rng: random.Random) -> Draft:
        """Return a draft, more likely one that reached rare states."""
        if self._weights is None:
            runs = self._reached.runs
            self._weights = list(
                accumulate(sum(1 / runs[state] for state in each.states) for each in self.entries)
            )
        return rng.choices(self.entries, cum_weights=self._weights)[0].draft
