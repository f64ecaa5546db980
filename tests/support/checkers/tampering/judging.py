"""How a run is judged after somebody tampered with it, as `highwater check` would."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from checkers.expectations import BadExpectation
from harness.judging import judge
from harness.recording.store import StoreError
from tests.support.checkers.tampering.changes import Tampering

REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """outcome: VALID, INVALID, UNKNOWN, or REFUSED: no run, or no plan to judge by (254)."""

    outcome: str
    reasons: tuple[str, ...]


def judged(run: Path, tampering: Tampering, root: Path) -> Judged:
    """Of a copy below `root`, which then goes. Raises what would end the command in 255."""
    copy = root / run.name
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("nodes"))
    try:
        tampering.change(copy)
        verdict = judge.check(copy)
        return Judged(outcome=verdict["verdict"], reasons=tuple(verdict["reasons"]))
    except (StoreError, BadExpectation) as error:
        return Judged(outcome=REFUSED, reasons=(str(error),))
    finally:
        shutil.rmtree(copy)
