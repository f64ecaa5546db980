"""The drafts that reached something new, and which of them is changed next. Pure.

A draft is chosen by how rare the states are that it reached: states that one run in a thousand has
reached are where more may be hidden ("AFLFast", Böhme, Pham and Roychoudhury, 2016).
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from harness.simulation.decisions.reached import Reached, State
from harness.simulation.guided.draft import Draft


@dataclass(frozen=True, slots=True)
class Entry:
    """A draft, and when its run reached which states: ms of its chaos, negative before it."""

    draft: Draft
    states: Mapping[State, int]


class Corpus:
    """All entries, and how many runs reached each state."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._reached = Reached()
        self._weights: list[float] | None = None

    def add(self, draft: Draft, states: Mapping[State, int], *, keep: bool = True) -> bool:
        """Count a run's states; keep its draft if they are new and `keep` is true. Return whether
        it was kept."""
        new = any(state not in self._reached.runs for state in states)
        self._reached.add(states)
        self._weights = None
        if new and keep:
            self.entries.append(Entry(draft, dict(states)))
        return new and keep

    def choose(self, rng: random.Random) -> Entry:
        """Return an entry, more likely one that reached rare states."""
        if self._weights is None:
            self._weights = list(
                accumulate(sum(map(self._rarity, each.states)) for each in self.entries)
            )
        return rng.choices(self.entries, cum_weights=self._weights)[0]

    def moment_ms(self, entry: Entry, rng: random.Random) -> int:
        """Return when an entry's run reached one of its states, more likely a rare one."""
        states = list(entry.states)
        (chosen,) = rng.choices(states, [self._rarity(state) for state in states])
        return max(0, entry.states[chosen])

    def _rarity(self, state: State) -> float:
        return 1 / self._reached.runs[state]
