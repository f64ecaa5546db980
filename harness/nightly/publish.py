"""Writes what others are told of a night, again after every trial: never less than what is known.

A file that cannot be written is a complaint, and no failure of the night.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.nightly import trend
from harness.nightly.cells import Cell
from harness.nightly.junit import junit
from harness.nightly.markdown import markdown
from harness.nightly.night import Night
from harness.nightly.prometheus import metrics
from harness.nightly.results import Result, changes
from harness.recording.store import write_atomic


@dataclass(slots=True, kw_only=True)
class Telling:
    """One night's files. `earlier`: the nights before it, the oldest first."""

    night: Night
    cells: Sequence[Cell]
    earlier: Sequence[Night]
    home: Path
    """Where the trend page goes."""
    problems: list[str] = field(default_factory=list)

    def before(self) -> list[Result]:
        """What the night before found."""
        return self.earlier[-1].results() if self.earlier else []

    def tell(self) -> None:
        """Write every file."""
        results = self.night.results()
        changed = changes(results, self.before())
        path = self.night.path
        self._write(path / "junit.xml", lambda: junit(self.night, self.cells, results))
        self._write(path / "summary.md", lambda: markdown(self.night, results, changed))
        self._write(path / "metrics.prom", lambda: metrics(self.night, results))
        try:
            trend.write(self.home / "trend.html", [*self.earlier, self.night])
        except OSError as error:
            self.problems.append(f"{self.home / 'trend.html'} could not be written: {error}")

    def _write(self, path: Path, text: Callable[[], str]) -> None:
        try:
            write_atomic(path, text())
        except OSError as error:
            self.problems.append(f"{path} could not be written: {error}")
