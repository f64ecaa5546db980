"""The order of the trials, so that a limited budget tells as much as possible. Pure.

Every cell runs once before any cell runs twice. In each round, cells that failed last night come
first, then canaries, then short cells. A trial that would not end within the budget is left out; a
shorter trial after it may still run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.nightly.cells import Cell
from harness.nightly.results import Trial

AROUND_S = 45.0
"""The time of a run besides its chaos phase, when no earlier night measured it."""
CHAOS_S = 60.0
"""The chaos phase when neither the cell nor an earlier night says how long it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastNight:
    """Facts about the cells from the last night."""

    failed: frozenset[str] = frozenset()
    seconds: Mapping[str, float] | None = None
    """The longest trial of each cell, in seconds."""

    def expected_s(self, cell: Cell) -> float:
        """Return how long a trial of the cell will probably take."""
        seen = (self.seconds or {}).get(cell.name)
        return seen or AROUND_S + (cell.settings.duration_s or CHAOS_S)


def in_order(cells: Sequence[Cell], trials: Sequence[Trial], before: LastNight) -> list[Trial]:
    """Return the trials in the order in which they start; `trials` lists each cell's together."""
    by_name = {cell.name: cell for cell in cells}
    rounds: dict[str, int] = {}
    ranked = []
    for number, trial in enumerate(trials):
        round_ = rounds[trial.cell] = rounds.get(trial.cell, -1) + 1
        cell = by_name[trial.cell]
        passed = cell.name not in before.failed
        rank = (round_, passed, not cell.canary, before.expected_s(cell), number)
        ranked.append((rank, trial))
    return [trial for _, trial in sorted(ranked, key=lambda pair: pair[0])]


def next_trial(
    waiting: Sequence[Trial], cells: Mapping[str, Cell], before: LastNight, left_s: float
) -> Trial | None:
    """Return the first trial that will end within `left_s` seconds; None when there is none."""
    return next((t for t in waiting if before.expected_s(cells[t.cell]) <= left_s), None)
