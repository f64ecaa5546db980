"""The track record: what was found of each broken broker, as a table and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from harness.zoo.entry import Exhibit
from harness.zoo.trials import Chance, Real, Scripted

HEADINGS: Final = ("broken", "after", "caught by", "scripted", "at random", "real processes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What was found of one exhibit; None where it was not tried."""

    exhibit: Exhibit
    scripted: Scripted | None = None
    chance: Chance | None = None
    real: Real | None = None

    @property
    def holds(self) -> bool:
        """Whether every schedule that was played caught it, and nothing else."""
        played = [each for each in (self.scripted, self.real) if each is not None]
        return all(each.holds for each in played)

    @property
    def caught_by(self) -> tuple[str, ...]:
        """Anomalies that clients see, if any did; else what broke inside."""
        signs = [self.real.caught_by if self.real else ()]
        signs += [each.signs for each in (self.scripted, self.chance) if each is not None]
        seen = next((found for found in signs if found), ())
        return tuple(sign.partition(":")[0] for sign in seen)

    def cells(self) -> tuple[str, ...]:
        """The line of a table."""
        return (
            self.exhibit.bug,
            ", ".join(self.exhibit.sources),
            ", ".join(self.caught_by) or "-",
            _scripted(self.scripted),
            _chance(self.chance),
            _real(self.real),
        )

    def as_json(self) -> dict[str, Any]:
        """JSON-able."""
        said: dict[str, Any] = {"name": self.exhibit.name, "bug": self.exhibit.bug}
        said |= {"caught_by": list(self.caught_by), "holds": self.holds}
        if self.scripted:
            said["scripted"] = {k: getattr(self.scripted, k) for k in ("worlds", "caught", "sound")}
        if self.chance:
            said |= {"random_seeds": list(self.chance.seeds), "seeds_tried": self.chance.tried}
            said |= {"unsound_seeds": list(self.chance.unsound)}
        if self.real:
            said["real"] = {"verdict": self.real.verdict, "seconds": self.real.seconds}
        return said


def _scripted(found: Scripted | None) -> str:
    if found is None:
        return ""
    wrong = found.worlds - found.sound
    unsound = f", unmodified wrong in {wrong}: {found.said}" if wrong else ""
    return f"{found.caught} of {found.worlds} worlds{unsound}"


def _chance(found: Chance | None) -> str:
    if found is None:
        return ""
    median = found.median
    caught = sum(each is not None for each in found.seeds)
    wrong = ", ".join(map(str, found.unsound))
    unsound = f", unmodified wrong in seeds {wrong}" if wrong else ""
    if median is None:
        return f"not within {found.tried} seeds ({caught} of {len(found.seeds)} searches){unsound}"
    return ("1 seed" if median == 1 else f"{median:g} seeds") + unsound


def _real(found: Real | None) -> str:
    if found is None:
        return ""
    if not found.holds:
        return f"not caught ({found.verdict}; unmodified {found.sound}): {found.said[:80]}"
    return "caught" if found.seconds is None else f"{found.seconds:.1f} s"


def table(lines: Sequence[Line]) -> Table:
    """For a terminal."""
    drawn = Table(box=None, pad_edge=False, header_style="bold underline")
    for heading in HEADINGS:
        drawn.add_column(heading)
    for line in lines:
        style = "" if line.holds else "bold red"
        drawn.add_row(*(Text(cell, style=style) for cell in line.cells()))
    return drawn


def markdown(lines: Sequence[Line]) -> str:
    """For a README."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *(line.cells() for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def summary(lines: Iterable[Line]) -> str:
    """How many, in a sentence."""
    found = list(lines)
    played = [line for line in found if line.scripted or line.real]
    safety = [line for line in found if line.exhibit.is_safety and line.chance]
    random = sum(line.chance is not None and line.chance.median is not None for line in safety)
    told = [f"{sum(line.holds for line in played)} of {len(played)} caught by their schedules"]
    if safety:
        told.append(f"{random} of {len(safety)} that break safety caught at random")
    return "; ".join(told)
