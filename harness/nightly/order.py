"""Which trial comes next, so that the budget says most. Pure.

Every cell has its turn before any has a second one. Within a turn those that failed the last night
come first, then the canaries, then the short ones; a trial that cannot be over by the end of the
budget is left out, which a shorter one behind it need not be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.nightly.cells import Cell
from harness.nightly.results import Trial

AROUND_S = 45.0
"""What a run takes besides its chaos, where no night before tells."""
CHAOS_S = 60.0
"""Where neither the cell nor a night before tells how long a trial is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What the last night tells of the cells."""

    failed: frozenset[str] = frozenset()
    seconds: Mapping[str, float] | None = None
    """The longest trial of each cell."""

    def expected_s(self, cell: Cell) -> float:
        """How long a trial of the cell will take."""
        seen = (self.seconds or {}).get(cell.name)
        return seen or AROUND_S + (cell.what.duration_s or CHAOS_S)


def in_order(cells: Sequence[Cell], trials: Sequence[Trial], before: Before) -> list[Trial]:
    """The trials in the order in which they are to be begun; `trials` has each cell's in turn."""
    by_name = {cell.name: cell for cell in cells}
    turns: dict[str, int] = {}
    ranked = []
    for number, trial in enumerate(trials):
        turn = turns[trial.cell] = turns.get(trial.cell, -1) + 1
        cell = by_name[trial.cell]
        calm = cell.name not in before.failed
        rank = (turn, calm, not cell.canary, before.expected_s(cell), number)
        ranked.append((rank, trial))
    return [trial for _, trial in sorted(ranked, key=lambda pair: pair[0])]


def next_of(
    waiting: Sequence[Trial], cells: Mapping[str, Cell], before: Before, left_s: float
) -> Trial | None:
    """The first that will be over in time; None where none will."""
    return next((t for t in waiting if before.expected_s(cells[t.cell]) <= left_s), None)
