"""Verdicts in words: the sentence fits what was found, also when parts are missing."""

from typing import Any

import pytest

from harness.reports.words import acks_label, listed, main_cause, milliseconds, why


def anomaly(kind: str, count: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "judgement": "forbidden", "count": count, "acks": -1} | more


def test_gravest_violation_comes_first() -> None:
    """Losses before duplicates, counted together over partitions."""
    found = [
        anomaly("duplicate", 900),
        anomaly("lost-write", 1, rule="acks=all: lost-write forbidden: every replica had it"),
        anomaly("lost-write", 2, partition=1),
        anomaly("divergent-replicas", 1, acks=None),
    ]
    assert why({"verdict": "INVALID", "anomalies": found}) == (
        "acks=all lost 3 acknowledged writes, which nothing permits: every replica had it. "
        "Also: acks=all stored 900 values twice; the cluster ended with 1 difference between "
        "replicas."
    )


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ([0, 0], "No acknowledged write was lost: acks=1 kept all 10 and acks=all kept all 10."),
        ([1, 0], "Acknowledged writes were lost: 1 acks=1, permitted by acks=1. acks=all kept all "
                 "10 of its acknowledged writes."),
        ([3, 4], "Acknowledged writes were lost: 4 acks=all, permitted by the contract; 3 acks=1, "
                 "permitted by acks=1."),
    ],
)  # fmt: skip
def test_why_a_run_is_valid(lost: list[int], expected: str) -> None:
    """Which acks modes kept everything, which lost what."""
    both = [*zip((1, -1), lost, strict=True)]
    topics = [{"acks": a, "acked": 10, "lost": n} for a, n in both]
    anomalies = [
        {"kind": "lost-write", "judgement": "permitted", "acks": a, "count": n}
        | ({"permitted_by": "acks=1"} if a == 1 else {})
        for a, n in both
    ]
    assert why({"verdict": "VALID", "topics": topics, "anomalies": anomalies}) == expected


@pytest.mark.parametrize(
    "verdict", [{}, {"verdict": "VALID"}, {"verdict": "INVALID"}, {"verdict": "?"}]
)
def test_every_verdict_has_a_sentence(verdict: dict[str, Any]) -> None:
    """Also a verdict with missing parts."""
    assert why(verdict).endswith(".")


def test_main_cause_is_that_of_the_gravest_violation() -> None:
    """Causes of permitted anomalies did not make the verdict."""
    found = [
        anomaly("duplicate", 9, cause="a bump"),
        anomaly("lost-write", 1, cause="an outage"),
        anomaly("lost-write", 5, cause="an election"),
        anomaly("lost-write", 50, cause="no promise", judgement="permitted"),
    ]
    assert main_cause({"anomalies": found}) == "an election"
    assert main_cause({"anomalies": found[3:]}) == ""
    assert main_cause({}) == ""


def test_small_words() -> None:
    """Lists, labels, latencies."""
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert [acks_label(a) for a in (0, 1, -1, "all", None)] == [
        "acks=0", "acks=1", "acks=all", "acks=all", "",
    ]  # fmt: skip
    assert [milliseconds(v) for v in (0.123, 12.34, 1234.5, None, float("nan"))] == [
        "0.12", "12.3", "1,234", "\N{EN DASH}", "\N{EN DASH}",
    ]  # fmt: skip


def test_duplicates_made_by_the_client_are_mentioned_in_a_valid_run() -> None:
    """The broker is not blamed for them."""
    twice = {"kind": "duplicate", "aspect": "client-epoch", "acks": -1, "judgement": "permitted"}
    others = [{"kind": "duplicate", "acks": 1, "judgement": "permitted", "count": 9}]
    topics = [{"acks": -1, "acked": 9, "lost": 0}]
    said = why({"verdict": "VALID", "topics": topics, "anomalies": [twice | {"count": 2}] * 2})
    assert said.startswith("No acknowledged write was lost: acks=all kept all 9. acks=all")
    assert "stored 4 values twice: the client started a new producer epoch by itself" in said
    assert "twice" not in why({"verdict": "VALID", "topics": topics, "anomalies": others})
