"""Removes the runs of old nights. The result files of each night stay.

A run directory is large (histories, node logs); the night's own files are small and are kept.
Nothing but `runs/<trial>` of a night of this suite is ever removed, and links are not followed.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.nightly.night import RUNS, Night
from harness.nightly.results import Outcome, Trial
from harness.nightly.suite import Retention


def outdated(nights: Sequence[Night], keep: Retention) -> list[Path]:
    """Return the run directories to remove. `nights`: the oldest first."""
    found = []
    for age, night in enumerate(reversed(nights)):
        outcomes = {(r.cell, r.seed): r.outcome for r in night.results()}
        for trial in night.trials:
            outcome = outcomes.get((trial.cell, trial.seed))
            nights_kept = keep.passed if outcome is Outcome.PASSED else keep.failed
            directory = night.run_dir(Trial(cell=trial.cell, seed=trial.seed))
            inside = directory.parent == night.path / RUNS and not directory.is_symlink()
            if outcome is not None and age >= nights_kept and inside and directory.is_dir():
                found.append(directory)
    return found


def remove(directories: Sequence[Path]) -> list[str]:
    """Remove directories. Return a message for each that could not be removed."""
    problems = []
    for directory in directories:
        try:
            shutil.rmtree(directory)
        except OSError as error:
            problems.append(f"{directory} could not be removed: {error}")
    return problems
