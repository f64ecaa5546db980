"""Verdicts in words: the sentence fits what was found, whatever the verdict lacks."""

from typing import Any

import pytest

from harness.report.findings import arrange
from harness.report.words import acks_label, listed, milliseconds, shorten, why


def anomaly(kind: str, count: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "judgement": "forbidden", "count": count, "acks": -1} | more


def test_the_gravest_is_said_first() -> None:
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
        ([0, 0], "Every acknowledged write is still there: acks=1 kept all 10 and acks=all kept "
                 "all 10."),
        ([1, 0], "acks=all kept all 10 of its acknowledged writes; acks=1 lost 1, and for a cause "
                 "on record that its contract permits."),
        ([3, 4], "acks=1 lost 3 and acks=all lost 4, each for a cause on record that its contract "
                 "permits."),
    ],
)  # fmt: skip
def test_why_a_run_is_valid(lost: list[int], expected: str) -> None:
    """Who kept everything, who lost what."""
    topics = [{"acks": a, "acked": 10, "lost": n} for a, n in zip((1, -1), lost, strict=True)]
    assert why({"verdict": "VALID", "topics": topics}) == expected


@pytest.mark.parametrize(
    "verdict", [{}, {"verdict": "VALID"}, {"verdict": "INVALID"}, {"verdict": "?"}]
)
def test_there_is_always_a_sentence(verdict: dict[str, Any]) -> None:
    """Also for a verdict that lacks what it should have."""
    assert why(verdict).endswith(".")


def test_what_is_not_shown_is_counted() -> None:
    """Findings beyond the bound and evidence beyond the examples."""
    many = [anomaly("duplicate", 5, examples=[{"value": (2 << 32) + 7}]) for _ in range(43)]
    (kind,) = arrange(many)
    assert (kind.left_out, kind.left_out_count) == (3, 15)
    assert kind.findings[0].not_shown == 4
    assert kind.findings[0].rows[0][0].text == "2:7"


def test_what_is_only_worth_knowing_is_one_table() -> None:
    """Recovery times of all partitions together, the longest first, with their faults."""
    times = [
        anomaly("recovery", 1, judgement="informational", topic="t", partition=n, aspect="healed",
                rule="any", examples=[{"invoke_ns": 5, "complete_ns": 5 + n * 10**9,
                                       "other_op": n}])
        for n in range(3)
    ]  # fmt: skip
    (kind,) = arrange([*times, anomaly("recovery", 1)])
    forbidden, informational = kind.findings
    assert (forbidden.judgement, informational.count) == ("forbidden", 3)
    assert informational.aspect == "longest 2.000 s, acks=all · t/2"
    assert list(informational.heads) == [
        "where", "what", "lasted", "invoked", "completed", "fault",
    ]  # fmt: skip
    assert [row[0].text for row in informational.rows] == [
        "acks=all · t/2", "acks=all · t/1", "acks=all · t/0",
    ]  # fmt: skip
    assert informational.rows[0][2].text == "2.000000 s"


def test_small_words() -> None:
    """Lists, labels, latencies, names that are cut."""
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert [acks_label(a) for a in (0, 1, -1, "all", None)] == [
        "acks=0", "acks=1", "acks=all", "acks=all", "",
    ]  # fmt: skip
    assert [milliseconds(v) for v in (0.123, 12.34, 1234.5, None, float("nan"))] == [
        "0.12", "12.3", "1,234", "\N{EN DASH}", "\N{EN DASH}",
    ]  # fmt: skip
    assert shorten("a-very-long-topic/12") == "…ng-topic/12"


def test_what_clients_sent_again_is_said_of_a_valid_run() -> None:
    """A duplicate of the client's own making is no blame, and no secret."""
    twice = {"kind": "duplicate", "aspect": "client-epoch", "acks": -1, "judgement": "permitted"}
    others = [{"kind": "duplicate", "acks": 1, "judgement": "permitted", "count": 9}]
    topics = [{"acks": -1, "acked": 9, "lost": 0}]
    said = why({"verdict": "VALID", "topics": topics, "anomalies": [twice | {"count": 2}] * 2})
    assert said.startswith("Every acknowledged write is still there: acks=all kept all 9. acks=all")
    assert "stored 4 values twice: its client left its producer epoch by its own doing" in said
    assert "twice" not in why({"verdict": "VALID", "topics": topics, "anomalies": others})
