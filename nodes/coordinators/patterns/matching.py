"""Which names a regular expression matches, with a bound on the work.

The automaton's sets of states become states of a deterministic one when a name first needs them.
So a usual pattern costs one lookup for each letter of each name. What that first time costs is
counted, and bounded for the life of a pattern.
"""

from collections.abc import Iterable
from typing import Final

from nodes.coordinators.patterns.syntax import (
    OTHER,
    TOPIC_LETTERS,
    Automaton,
    PatternError,
    parse,
    text_letters,
)

MAX_WORK: Final = 200_000
"""Steps of the nondeterministic automaton: below a tenth of a second."""

_States = frozenset[int]


class Pattern:
    """A regular expression, ready to match."""

    def __init__(self, pattern: str, *, any_text: bool = False) -> None:
        """`any_text`: the names may be any text, and not only topics'. Raises PatternError."""
        self._letters = text_letters(pattern) if any_text else TOPIC_LETTERS
        self._automaton: Automaton = parse(pattern, self._letters)
        self._steps: dict[_States, dict[str, _States]] = {}
        self._work = 0
        self._start = self._closed([self._automaton.start])

    def matches(self, name: str) -> bool:
        """Whether the whole name matches. Raises PatternError if that costs too much."""
        states = self._start
        for letter in name:
            known = self._steps.setdefault(states, {})
            following = known.get(letter)
            if following is None:
                following = known[letter] = self._step(states, letter)
            if not following:
                return False
            states = following
        return self._automaton.end in states

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """The names that match. Raises PatternError if that costs too much."""
        return frozenset(name for name in names if self.matches(name))

    def _step(self, states: _States, letter: str) -> _States:
        automaton = self._automaton
        self._count(len(states))
        letter = letter if letter in self._letters else OTHER
        return self._closed(
            [automaton.target[each] for each in states if letter in automaton.classes[each]]
        )

    def _closed(self, states: list[int]) -> _States:
        """These states, and those that they reach without a letter."""
        found = set(states)
        for each in states:
            for free in self._automaton.free[each]:
                if free not in found:
                    found.add(free)
                    states.append(free)
        self._count(len(states))
        return frozenset(found)

    def _count(self, steps: int) -> None:
        self._work += steps
        if self._work > MAX_WORK:
            raise PatternError("the pattern costs too much")
