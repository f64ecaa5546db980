"""Explanations of a lost write: one cause, or several causes that the record does not distinguish.

One event may be recorded as several causes: an election, and the state that replicas had lost
before it. Then only one of them is named. A fault that led to an election is not named beside the
election.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from checkers.causes.cause import Cause, CauseKind
from checkers.causes.state_loss import VIEW_SLACK_NS

NUMBERED = pa.schema([("cause_id", pa.int32()), ("possible", pa.string()), ("number", pa.int32())])
"""The number of the explanation for a set of possible causes and the best cause among them."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The possible causes, in the order of the record; one of them is the true cause. judged: the
    cause that the contract judges: the one that permits most."""

    causes: tuple[Cause, ...]
    judged: Cause

    @property
    def text(self) -> str:
        """For people."""
        if len(self.causes) == 1:
            return self.causes[0].text
        listed = (f"({number}) {cause.text}" for number, cause in enumerate(self.causes, 1))
        return f"One of {len(self.causes)} causes: {' '.join(listed)}"


class Explanations:
    """Explanations by number. The explanation by a single cause has the number of the cause."""

    def __init__(self, causes: Sequence[Cause]) -> None:
        self._causes = causes
        self._several: list[Explanation] = []
        self._numbers: dict[tuple[int, tuple[int, ...]], int] = {}

    def __getitem__(self, number: int) -> Explanation:
        if number < len(self._causes):
            return Explanation((self._causes[number],), self._causes[number])
        return self._several[number - len(self._causes)]

    def number(self, found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return rows of NUMBERED for rows of `matching.possible_causes`."""
        pairs = sorted((row["cause_id"], row["possible"]) for row in found)
        return [
            {"cause_id": best, "possible": possible, "number": self._number(best, possible)}
            for best, possible in pairs
        ]

    def _number(self, best: int, possible: str) -> int:
        numbers = self._events(best, [int(number) for number in possible.split(",")])
        judged = best if best in numbers else numbers[0]
        if len(numbers) == 1:
            return judged
        key = judged, numbers
        if key not in self._numbers:
            self._numbers[key] = len(self._causes) + len(self._several)
            causes = tuple(self._causes[number] for number in numbers)
            self._several.append(Explanation(causes, self._causes[judged]))
        return self._numbers[key]

    def _events(self, best: int, numbers: Sequence[int]) -> tuple[int, ...]:
        """Return one cause for each event; `best` represents its own event."""
        by_event: dict[tuple[CauseKind | None, int], int] = {}
        for number in (best, *numbers):
            cause = self._causes[number]
            event = (None, cause.epoch) if cause.epoch is not None else (cause.kind, number)
            by_event.setdefault(event, number)
        kept = sorted(by_event.values())
        elections = [self._causes[n] for n in kept if self._causes[n].epoch is not None]
        blamed = frozenset[int]().union(*(each.faults for each in elections))
        return tuple(
            n
            for n in kept
            if not (self._causes[n].kind is CauseKind.FAULT and self._causes[n].faults <= blamed)
            and not any(_is_of(self._causes[n], each) for each in elections)
        )


def _is_of(cause: Cause, election: Cause) -> bool:
    """Whether a refusal belongs to this election: the same node lost both leaderships at once."""
    if cause.kind is not CauseKind.REFUSAL or cause.elected_ns is None:
        return False
    at_once = abs(cause.elected_ns - (election.elected_ns or 0)) <= VIEW_SLACK_NS
    return at_once and cause.leader == election.deposed
