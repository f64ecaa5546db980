"""The outcomes of trials, cells and nights."""

import json

import pytest

from harness.nightly.cells import Cell
from harness.nightly.results import (
    Change,
    Outcome,
    Result,
    Trial,
    changes,
    exit_code,
    flaky,
    result_of_trial,
)
from harness.nightly.suite import CellSettings, KnownViolation

TRIAL = Trial(cell="c", seed=1)


def verdict(answer: str, *forbidden: str) -> dict[str, object]:
    found = [{"kind": k, "judgement": "forbidden", "count": 2, "examples": []} for k in forbidden]
    topics = [{"acked": 5, "p99_ms": 1.0}]
    return {"verdict": answer, "reasons": ["so it is"], "anomalies": found, "topics": topics}


def result_of(
    answer: str | None,
    *forbidden: str,
    code: int = 0,
    canary: bool = False,
    expect: str | None = None,
    known: tuple[KnownViolation, ...] = (),
) -> Result:
    cell = Cell(name="c", settings=CellSettings(), seeds=1, canary=canary, expect=expect)
    said = None if answer is None else verdict(answer, *forbidden)
    return result_of_trial(cell, TRIAL, exit_code=code, verdict=said, complaint="why", known=known)


KNOWN = KnownViolation(cell="c*", anomaly="duplicate", reason="the client's", link="https://x")


@pytest.mark.parametrize(
    ("result", "outcome", "code"),
    [
        (result_of("VALID"), Outcome.PASSED, 0),
        (result_of("INVALID", "lost-write", code=1), Outcome.VIOLATION, 1),
        (result_of("UNKNOWN", code=2), Outcome.UNKNOWN, 2),
        (result_of(None, code=254), Outcome.ERROR, 255),
        (result_of(None, code=-9), Outcome.ERROR, 255),
        (result_of("INVALID", "duplicate", code=1, known=(KNOWN,)), Outcome.KNOWN, 0),
        (
            result_of("INVALID", "duplicate", "lost-write", code=1, known=(KNOWN,)),
            Outcome.VIOLATION,
            1,
        ),
        (result_of("INVALID", "lost-write", code=1, canary=True), Outcome.PASSED, 0),
        (result_of("VALID", canary=True), Outcome.VIOLATION, 1),
        (result_of("UNKNOWN", code=2, canary=True), Outcome.VIOLATION, 1),
        (
            result_of("INVALID", "duplicate", code=1, canary=True, expect="lost-write"),
            Outcome.VIOLATION,
            1,
        ),
        (
            result_of("INVALID", "duplicate", code=1, canary=True, known=(KNOWN,)),
            Outcome.PASSED,
            0,
        ),
    ],
)
def test_outcomes_and_exit_codes(result: Result, outcome: Outcome, code: int) -> None:
    """A canary must be detected; a known violation is no failure, unless another comes with it."""
    assert result.outcome is outcome
    assert exit_code([result]) == code
    assert Result.from_json(result.to_json()) == result


def expected(answer: str, outcome: str, *, code: int, canary: bool = False) -> Result:
    rows = [{"expectation": "lost = 0", "outcome": outcome, "said": "lost = 0, measured 1"}]
    kinds = ("duplicate",) if answer == "INVALID" else ()
    said = verdict(answer, *kinds) | {"expectations": rows}
    cell = Cell(name="c", settings=CellSettings(), seeds=1, canary=canary)
    return result_of_trial(cell, TRIAL, exit_code=code, verdict=said, complaint="", known=(KNOWN,))


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (expected("VALID", "passed", code=0), Outcome.PASSED),
        (expected("VALID", "failed", code=1), Outcome.UNMET),
        (expected("VALID", "unknown", code=2), Outcome.UNKNOWN),
        (expected("UNKNOWN", "failed", code=1), Outcome.UNMET),
        (expected("UNKNOWN", "passed", code=2), Outcome.UNKNOWN),
        (expected("INVALID", "failed", code=1), Outcome.UNMET),
        (expected("INVALID", "failed", code=1, canary=True), Outcome.PASSED),
    ],
)
def test_known_violation_does_not_hide_a_failed_expectation(
    result: Result, outcome: Outcome
) -> None:
    """A canary has no expectations but to be detected."""
    assert result.outcome is outcome
    assert Result.from_json(json.loads(json.dumps(result.to_json()))).outcome is outcome


def test_exit_code_of_a_night_is_that_of_its_worst_trial() -> None:
    """Violations outweigh errors, errors outweigh undecided trials; a night without trials is
    undecided."""
    violation = result_of("INVALID", "lost-write", code=1)
    error, unknown = result_of(None, code=255), result_of("UNKNOWN", code=2)
    assert exit_code([unknown, error, violation]) == 1
    assert exit_code([unknown, error]) == 255
    assert exit_code([result_of("VALID"), unknown]) == 2
    assert exit_code([]) == 2


def test_known_violation_has_its_reason_and_link() -> None:
    """In every list."""
    found = result_of("INVALID", "duplicate", code=1, known=(KNOWN,))
    assert found.known == ("the client's (https://x)",)


def night(**cells: Outcome) -> list[Result]:
    return [Result(cell=c, seed=1, outcome=outcome, said="") for c, outcome in cells.items()]


def test_changes_against_the_night_before() -> None:
    """New, still failing, fixed; a cell that was left out counts as not failed."""
    V, P = Outcome.VIOLATION, Outcome.PASSED
    before = night(a=P, b=V, c=V, d=P, e=Outcome.LEFT_OUT)
    now = night(a=V, b=V, c=P, d=P, e=Outcome.ERROR)
    assert changes(now, before) == {
        "a": Change.NEW,
        "b": Change.STILL,
        "c": Change.FIXED,
        "d": Change.SAME,
        "e": Change.NEW,
    }


def test_flaky_cells_change_at_least_twice() -> None:
    """A cell that broke once, or was repaired once, is not flaky."""
    V, P = Outcome.VIOLATION, Outcome.PASSED
    turns = {"a": [P, V, P], "b": [P, V, V], "c": [V, V, P], "d": [V, P, V]}
    nights = [night(**{cell: t[n] for cell, t in turns.items()}) for n in range(3)]
    assert flaky(nights) == {"a", "d"}
