"""What every reader of an output does, and the elements that it has found."""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from harness.workloads.app.elements import Element, Extraction, Place

MAX_ELEMENTS: Final = 1_000_000
"""So many elements of a run are read; a program with more of them is said to flood its output."""
FINAL_S: Final = 60.0
"""How long the last read may go on without progress."""


class TooMuchOutput(Exception):
    """The program wrote more elements than a run can judge."""


class Elements:
    """The elements by their places. Raises TooMuchOutput when there are too many.

    An output is read again from its beginning if it may have changed: `clear`, then `add` for all.
    An element that is at its place again stays the one that was seen first.
    """

    def __init__(self, extraction: Extraction, now_ns: Callable[[], int]) -> None:
        self.by_place: dict[Place, Element] = {}
        self.values: set[int] = set()
        """Every value that was seen at some time."""
        self.texts = 0
        """How many elements were read, also those that do not count."""
        self.fresh: deque[Place] = deque()
        """Places whose element nobody has taken yet, in the order in which they were found."""
        self.changed = False
        """Whether a place had another element before."""
        self._before: dict[Place, Element] = {}
        self._extraction = extraction
        self._now_ns = now_ns

    def add(self, place: Place, text: str, seen_ns: int | None = None) -> Element | None:
        """Add what is at a place, and return it; None if it is no output of this run."""
        self.texts += 1
        if self.texts > MAX_ELEMENTS:
            raise TooMuchOutput(f"the program wrote more than {MAX_ELEMENTS:,} elements")
        found = self._extraction.element(text, self._now_ns() if seen_ns is None else seen_ns)
        if found is None:
            return None
        before = self.by_place.get(place) or self._before.get(place)
        if before is None:
            self.fresh.append(place)
        elif (before.value, before.error) == (found.value, found.error):
            found = before
        else:
            self.changed = True
        self.by_place[place] = found
        if found.value is not None:
            self.values.add(found.value)
        return found

    def clear(self) -> None:
        """Forget what is at the places, because the output is read again from its beginning."""
        if self._before:
            self._before |= self.by_place
        else:
            self._before = self.by_place
        self.by_place = {}
        self.texts = 0


class OutputReader(Protocol):
    """Reads one output. Calls come from one thread, and take a second at most, but for `finish`."""

    elements: Elements
    problem: str | None
    """Why the last read failed, in words; None after a read that did not."""

    @property
    def address(self) -> str:
        """What the program is told: the name of a topic, a path, or a URL."""
        ...

    def poll(self) -> None:
        """Read what is new. Raises TooMuchOutput."""
        ...

    def finish(self) -> None:
        """Read everything, after the program has ended. Raises TooMuchOutput."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...
