"""Evidence that is missing, or contradicts itself, is never silently VALID, and ends no command."""

from pathlib import Path
from typing import Any

import pytest

from harness.judging import judge
from tests.support.checkers.tampering.changes import Tampering, all_changes
from tests.support.checkers.tampering.judging import Judged, judged
from tests.support.checkers.tampering.runs import BROKEN, KEPT
from tests.support.tiers import in_turn

EVERY = {each.name: each for each in all_changes()}
FEW = list(EVERY)[::60]
"""Of every sort some."""


def assert_seen(tampering: Tampering, kept: Judged, broken: Judged) -> None:
    """Of neither run an unfounded VALID, and what is not VALID has reasons."""
    assert kept.outcome != "VALID" or tampering.harmless, tampering.name
    assert broken.outcome != "VALID", tampering.name
    assert all(each.reasons for each in (kept, broken))


def test_unchanged_runs_are_valid_and_invalid(runs: dict[str, Path]) -> None:
    """The one VALID, the other INVALID."""
    outcomes = {module: judge.check(run)["verdict"] for module, run in runs.items()}
    assert outcomes == {KEPT: "VALID", BROKEN: "INVALID"}


def both(tampering: Tampering, runs: dict[str, Path], root: Path) -> None:
    """Tamper with both, and look."""
    kept, broken = (judged(runs[module], tampering, root) for module in (KEPT, BROKEN))
    assert_seen(tampering, kept, broken)


@pytest.mark.parametrize("name", FEW)
def test_tampering_is_seen(name: str, runs: dict[str, Path], tmp_path: Path) -> None:
    """Of every sort some."""
    both(EVERY[name], runs, tmp_path)


@pytest.mark.parametrize(
    "name",
    in_turn(
        "checkers/tampering/test_tampering.py::test_more_tampering_is_seen",
        [name for name in EVERY if name not in FEW],
        of=24,
    ),
)
def test_more_tampering_is_seen(name: str, runs: dict[str, Path], tmp_path: Path) -> None:
    """All others."""
    both(EVERY[name], runs, tmp_path)


def test_there_are_enough_ways() -> None:
    """Every file, column and kind of rows."""
    assert len(EVERY) == len(all_changes()) >= 150


def test_harmless_changes_have_a_reason() -> None:
    """And is a small part."""
    harmless: list[Any] = [each for each in EVERY.values() if each.harmless]
    assert len(harmless) < len(EVERY) / 4
