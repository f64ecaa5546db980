"""Writes the result files of a night, again after every trial.

A file that cannot be written becomes a message in `problems`; the night does not fail.
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
class NightFiles:
    """The result files of one night. `earlier`: the nights before it, the oldest first."""

    night: Night
    cells: Sequence[Cell]
    earlier: Sequence[Night]
    suite_dir: Path
    """The directory of the trend page."""
    problems: list[str] = field(default_factory=list)

    def previous_results(self) -> list[Result]:
        """Return the results of the night before."""
        return self.earlier[-1].results() if self.earlier else []

    def write(self) -> None:
        """Write every file."""
        results = self.night.results()
        changed = changes(results, self.previous_results())
        path = self.night.path
        self._write(path / "junit.xml", lambda: junit(self.night, self.cells, results))
        self._write(path / "summary.md", lambda: markdown(self.night, results, changed))
        self._write(path / "metrics.prom", lambda: metrics(self.night, results))
        try:
            trend.write(self.suite_dir / "trend.html", [*self.earlier, self.night])
        except OSError as error:
            self.problems.append(f"{self.suite_dir / 'trend.html'} could not be written: {error}")

    def _write(self, path: Path, text: Callable[[], str]) -> None:
        try:
            write_atomic(path, text())
        except OSError as error:
            self.problems.append(f"{path} could not be written: {error}")
