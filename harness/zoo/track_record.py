"""The track record: the results of the trials of each entry, as a table and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from harness.zoo.entry import Entry
from harness.zoo.trials import RandomTrial, RealTrial, ScheduleTrial

HEADINGS: Final = (
    "name", "bug", "source", "caught by", "by schedule", "at random", "real processes",
)  # fmt: skip
LIST_HEADINGS: Final = ("name", "bug", "sources", "breaks")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackRecordRow:
    """The results of one entry; None for a trial that was not made."""

    entry: Entry
    by_schedule: ScheduleTrial | None = None
    at_random: RandomTrial | None = None
    real: RealTrial | None = None

    @property
    def holds(self) -> bool:
        """Whether each schedule that was played caught the mutant, and only the mutant."""
        trials = [each for each in (self.by_schedule, self.real) if each is not None]
        return all(each.holds for each in trials)

    @property
    def caught_by(self) -> tuple[str, ...]:
        """The anomalies that clients saw, if there are any; else the broken invariant."""
        signs = [self.real.caught_by if self.real else ()]
        signs += [each.signs for each in (self.by_schedule, self.at_random) if each is not None]
        seen = next((found for found in signs if found), ())
        return tuple(sign.partition(":")[0] for sign in seen)

    @property
    def schedule_result(self) -> str:
        """The result of the schedule, in words; empty if it was not played."""
        trial = self.by_schedule
        if trial is None:
            return ""
        failed = trial.worlds - trial.unmodified_passed
        problem = f", unmodified broker failed in {failed}: {trial.problem}" if failed else ""
        return f"{trial.caught} of {trial.worlds} worlds{problem}"

    @property
    def random_result(self) -> str:
        """The result of the random searches, in words; empty if there was no search."""
        trial = self.at_random
        if trial is None:
            return ""
        median = trial.median
        caught = sum(each is not None for each in trial.seeds)
        seeds = ", ".join(map(str, trial.unmodified_failed))
        problem = f", unmodified broker failed in seeds {seeds}" if seeds else ""
        if median is None:
            searches = f"{caught} of {len(trial.seeds)} searches"
            return f"not within {trial.tried} seeds ({searches}){problem}"
        return ("1 seed" if median == 1 else f"{median:g} seeds") + problem

    @property
    def real_result(self) -> str:
        """The result of the run with real processes, in words; empty if there was no run."""
        trial = self.real
        if trial is None:
            return ""
        if not trial.holds:
            verdicts = f"{trial.verdict}; unmodified {trial.unmodified}"
            return f"not caught ({verdicts}): {trial.problem[:80]}"
        return "caught" if trial.seconds is None else f"{trial.seconds:.1f} s"

    def cells(self) -> tuple[str, ...]:
        """Return the row's cells, in the order of HEADINGS."""
        return (
            self.entry.name,
            self.entry.bug,
            ", ".join(self.entry.sources),
            ", ".join(self.caught_by) or "-",
            self.schedule_result,
            self.random_result,
            self.real_result,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON-able data."""
        data: dict[str, Any] = {"name": self.entry.name, "bug": self.entry.bug}
        data |= {"caught_by": list(self.caught_by), "holds": self.holds}
        if trial := self.by_schedule:
            data["scripted"] = {
                "worlds": trial.worlds,
                "caught": trial.caught,
                "sound": trial.unmodified_passed,
            }
        if self.at_random:
            data |= {
                "random_seeds": list(self.at_random.seeds),
                "seeds_tried": self.at_random.tried,
                "unsound_seeds": list(self.at_random.unmodified_failed),
            }
        if self.real:
            data["real"] = {"verdict": self.real.verdict, "seconds": self.real.seconds}
        return data


def table(rows: Sequence[TrackRecordRow]) -> Table:
    """Return the track record for a terminal; a row that does not hold is red."""
    drawn = _table(HEADINGS)
    for row in rows:
        style = "" if row.holds else "bold red"
        drawn.add_row(*(Text(cell, style=style) for cell in row.cells()))
    return drawn


def list_table(entries: Sequence[Entry]) -> Table:
    """Return the list of entries for a terminal."""
    drawn = _table(LIST_HEADINGS)
    for entry in entries:
        cells = (entry.name, entry.bug, ", ".join(entry.sources), entry.breaks)
        drawn.add_row(*map(Text, cells))
    return drawn


def _table(headings: Sequence[str]) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold underline")
    for heading in headings:
        drawn.add_column(heading)
    return drawn


def markdown(rows: Sequence[TrackRecordRow]) -> str:
    """Return the track record as a Markdown table."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def summary(rows: Iterable[TrackRecordRow]) -> str:
    """Return one sentence: how many mutants were caught."""
    found = list(rows)
    played = [row for row in found if row.by_schedule or row.real]
    searched = [row for row in found if row.entry.is_safety and row.at_random]
    random = sum(row.at_random is not None and row.at_random.median is not None for row in searched)
    counts = [f"{sum(row.holds for row in played)} of {len(played)} caught by their schedules"]
    if searched:
        counts.append(f"{random} of {len(searched)} that break safety caught at random")
    return "; ".join(counts)
