"""Expectations: how they are written, and when they pass, fail, or stay open."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkers.check
from checkers.expectations import (
    MODES,
    QUANTITIES,
    BadExpectation,
    Expectation,
    Outcome,
    Range,
    evaluate,
    of_plan,
    parse,
    read,
)
from tests.support.histories.story import ALL, healthy, v


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("lost.acks-all = 0", "lost.acks-all = 0"),
        ("lost.acks-1<=10", "lost.acks-1 <= 10"),
        ("  publish_p99_ms   <  50.5 ", "publish_p99_ms < 50.5"),
        ("acked.acks-0 >= 1e3", "acked.acks-0 >= 1000"),
        ("duplicates == 0", "duplicates = 0"),
    ],
)
def test_an_expectation_has_one_form(written: str, text: str) -> None:
    """However it was written."""
    assert parse(written).text == text
    assert parse(text).text == text


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "write for example"),
        ("lost", "is not an expectation"),
        ("lost.acks-all = 0 = 0", "is not an expectation"),
        ("lots.acks-all = 0", "did you mean lost?"),
        ("p99 <= 5", "quantities are lost, duplicates"),
        ("lost.acks-2 = 0", "modes are acks-0, acks-1, acks-all"),
        ("lost. = 0", "no acks mode ''"),
        ("lost = many", "'many' is not a number"),
        ("lost = nan", "'nan' is not a number"),
        ("lost <= inf", "'inf' is not a number"),
        ("lost = -1", "'-1' is not a number"),
    ],
)
def test_invalid_expectation_is_refused_with_the_possible_values(written: str, said: str) -> None:
    """A quantity, a mode, a number."""
    with pytest.raises(BadExpectation) as caught:
        parse(written)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "written",
    [
        ["lost.acks-all = 0", "unavailable_ms <= 5000"],
        {"lost": {"acks-all": 0}, "unavailable_ms": "<= 5000"},
        {"lost.acks-all": "= 0", "unavailable_ms": "<=5000"},
    ],
)
def test_a_table_and_a_list_say_the_same(written: object) -> None:
    """As TOML has them: dotted keys are tables."""
    assert [each.text for each in read(written)] == ["lost.acks-all = 0", "unavailable_ms <= 5000"]


@pytest.mark.parametrize("written", [3, [3], "lost = 0", {"lost": True}, {"lost": [0]}])
def test_table_without_numbers_is_refused(written: object) -> None:
    """With an example."""
    with pytest.raises(BadExpectation, match="lost"):
        read(written)


def test_bounds_of_earlier_plans_are_expectations() -> None:
    """One idea, one name."""
    plan = {"bounds": {"unavailable_ms": 900, "stale_ms": None}, "expect": ["lost = 0"]}
    assert [each.text for each in of_plan(plan)] == ["lost = 0", "unavailable_ms <= 900"]


VALUES = st.integers(0, 20)


@given(st.sampled_from(["<=", ">=", "=", "<", ">"]), VALUES, VALUES, VALUES)
def test_an_outcome_holds_for_every_value_of_the_range(
    comparison: str, limit: int, least: int, more: int
) -> None:
    """Passed: for all of them; failed: for none; else nobody can say."""
    holds = {
        "<=": lambda x: x <= limit, ">=": lambda x: x >= limit, "=": lambda x: x == limit,
        "<": lambda x: x < limit, ">": lambda x: x > limit,
    }[comparison]  # fmt: skip
    wanted = Expectation(quantity="lost", acks=None, comparison=comparison, limit=limit)
    answers = {holds(value) for value in range(least, least + more + 1)}
    found = wanted.outcome(Range(least=least, most=least + more))
    expected = {
        frozenset({True}): Outcome.PASSED, frozenset({False}): Outcome.FAILED,
    }.get(frozenset(answers), Outcome.UNKNOWN)  # fmt: skip
    assert found is expected
    endless = wanted.outcome(Range(least=least, most=math.inf))
    if endless is not Outcome.UNKNOWN:
        assert answers == {endless is Outcome.PASSED}


def verdict(**changed: Any) -> dict[str, Any]:
    """A run of acks=1 and acks=all in which everything was measured."""
    topic = {"sent": 12, "acked": 10, "failed": 1, "indeterminate": 1, "p50_ms": 2.0}
    names = ("lost-write", "duplicate", "reordered-send", "unavailable", "stale-read")
    gap = {"invoke_ns": 0, "complete_ns": 83_500_000}
    made: dict[str, Any] = {
        "verdict": "VALID",
        "assumptions": [{"name": "all is there", "holds": True, "decisive": True}],
        "topics": [topic | {"acks": 1, "p99_ms": 83.0}, topic | {"acks": -1, "p99_ms": 40.0}],
        "anomalies": [
            {"kind": "lost-write", "acks": 1, "count": 3, "examples": []},
            {"kind": "lost-write", "acks": 1, "count": 4, "examples": []},
            {"kind": "unavailable", "acks": 1, "count": 1, "examples": [gap]},
        ],
        "detectors": [{"name": name, "status": "ok", "detail": ""} for name in names],
    }
    return made | changed


def outcome(text: str, of: dict[str, Any]) -> tuple[str, str]:
    (found,) = evaluate([parse(text)], of)
    return found.outcome.value, found.text


@pytest.mark.parametrize(
    ("text", "answer", "said"),
    [
        ("lost.acks-all = 0", "passed", "measured 0"),
        ("lost.acks-1 <= 6", "failed", "measured 7"),
        ("lost <= 7", "passed", "measured 7"),
        ("publish_p99_ms <= 50", "failed", "publish_p99_ms <= 50, measured 83"),
        ("publish_p99_ms.acks-all <= 50", "passed", "measured 40"),
        ("unavailable_ms < 83.5", "failed", "measured 83.5"),
        ("unavailable_ms.acks-all < 83.5", "unknown", "not measured: no partition was written"),
        ("stale_ms = 0", "passed", "measured 0"),
        ("acked >= 20", "passed", "measured 20"),
        ("indeterminate.acks-all = 0", "failed", "measured 1"),
        ("lost.acks-0 = 0", "unknown", "not measured: no topic has these acks"),
    ],
)
def test_each_quantity(text: str, answer: str, said: str) -> None:
    """Of one acks mode or of all; what was not measured is not passed."""
    found, told = outcome(text, verdict())
    assert found == answer
    assert said in told


@pytest.mark.parametrize(
    "changed",
    [
        {"assumptions": [{"name": "reads are whole", "holds": False, "decisive": True}]},
        {"assumptions": []},
        {"detectors": []},
        {"detectors": [{"name": "lost-write", "status": "crashed", "detail": "boom"}]},
        {"detectors": [{"name": "lost-write", "status": "nothing-to-judge", "detail": "none"}]},
        {"topics": []},
    ],
)
def test_possible_excess_is_not_decided(changed: dict[str, Any]) -> None:
    """Evidence is missing: no limit from above is surely kept."""
    assert outcome("lost.acks-all = 0", verdict(**changed))[0] == "unknown"


def test_certain_excess_fails_in_spite_of_missing_evidence() -> None:
    """More evidence could only add to it."""
    found = verdict(assumptions=[{"name": "reads are whole", "holds": False, "decisive": True}])
    assert outcome("lost.acks-1 <= 6", found) == (
        "failed", "lost.acks-1 <= 6, measured 7 or more (failed check: reads are whole)",
    )  # fmt: skip


def test_unseen_writes_may_be_lost_ones() -> None:
    """The final reads did not get to them."""
    unseen = {"kind": "unseen", "acks": -1, "count": 1, "examples": []}
    assert outcome("lost.acks-all = 0", verdict(anomalies=[unseen]))[0] == "unknown"
    assert outcome("lost.acks-1 = 0", verdict(anomalies=[unseen]))[0] == "passed"


def test_stuck_client_counts_as_unavailable() -> None:
    """A client that got nowhere any more; how long a reassignment takes is another matter."""
    stuck = {"kind": "stuck", "aspect": "producer", "acks": 1, "count": 1}
    stuck["examples"] = [{"invoke_ns": 0, "complete_ns": 9_000_000_000}]
    anomalies = verdict()["anomalies"]
    assert outcome("unavailable_ms <= 100", verdict(anomalies=[*anomalies, stuck]))[0] == "failed"
    moving = stuck | {"aspect": "reassignment"}
    assert outcome("unavailable_ms <= 100", verdict(anomalies=[*anomalies, moving]))[0] == "passed"


def test_every_quantity_and_mode_can_be_asked_of_a_judged_story() -> None:
    """None of them is beyond what a verdict holds; and a loss is counted."""
    story = healthy()
    story.forget(topic=ALL, values={v(ALL, 15)})
    asked = [
        f"{name}{mode} <= 1" for name in QUANTITIES for mode in ("", *(f".{m}" for m in MODES))
    ]
    plan = {**story.plan, "expect": [*asked, "lost.acks-all = 0"]}
    found = checkers.check.check(story.sources(), plan)
    rows = found.as_json()["expectations"]
    assert [row["expectation"] for row in rows] == [*asked, "lost.acks-all = 0"]
    assert rows[-1]["outcome"] == "failed"
    assert rows[-1]["said"] == "lost.acks-all = 0, measured 1"
    assert found.headline.unmet[-1] == rows[-1]["said"]
