"""Verdicts merge, give their reasons, and become JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest

from checkers.contract.contract import Judgement
from checkers.verdict import Anomaly, Assumption, DetectorResult, Outcome, Status, Verdict, merge


def anomaly(judgement: Judgement) -> Anomaly:
    """Two lost writes."""
    return Anomaly(
        kind="lost-write",
        topic="t",
        partition=0,
        acks=1,
        judgement=judgement,
        count=2,
        rule="the rule",
        aspect="tail",
    )


def verdict(*anomalies: Anomaly, **changes: Any) -> Verdict:
    """A verdict of one detector that went well."""
    result = DetectorResult(name="d", status=Status.OK, seconds=0.1, anomalies=anomalies)
    fields: dict[str, Any] = {
        "assumptions": (),
        "detectors": (result,),
        "topics": (),
        "contract": (),
        "engine": "duckdb",
        "checked_at": "now",
    }
    return Verdict(**(fields | changes))


BROKEN = Assumption(name="a", holds=False, detail="why", decisive=True)
HINT = Assumption(name="a", holds=False, detail="why", decisive=False)
CRASHED = DetectorResult(name="d", status=Status.CRASHED, seconds=0, detail="boom")
IDLE = DetectorResult(name="d", status=Status.NOTHING_TO_JUDGE, seconds=0, decisive=False)


@pytest.mark.parametrize(
    ("outcomes", "merged"),
    [
        ([], "VALID"),
        (["VALID", "UNKNOWN"], "UNKNOWN"),
        (["UNKNOWN", "INVALID", "VALID"], "INVALID"),
    ],
)
def test_merge(outcomes: list[str], merged: str) -> None:
    """INVALID outweighs UNKNOWN, which outweighs VALID."""
    assert merge(map(Outcome, outcomes)) == merged


def test_anomalies_with_equal_judgement_share_a_reason() -> None:
    """Of one partition, wherever in its log; the anomalies themselves stay apart."""
    tail = anomaly(Judgement.FORBIDDEN)
    found = verdict(tail, replace(tail, aspect="middle", count=1_300), replace(tail, partition=1))
    assert found.reasons == ("1,302 lost-write in t-0 (the rule)", "2 lost-write in t-1 (the rule)")
    assert len(found.as_json()["anomalies"]) == 3


@pytest.mark.parametrize(
    ("found", "outcome", "reason"),
    [
        (verdict(), "VALID", "No violations."),
        (verdict(anomaly(Judgement.PERMITTED)), "VALID", "No violations."),
        (verdict(anomaly(Judgement.INFORMATIONAL)), "VALID", "No violations."),
        (verdict(anomaly(Judgement.FORBIDDEN)), "INVALID", "2 lost-write in t-0 (the rule)"),
        (verdict(anomaly(Judgement.UNKNOWN)), "UNKNOWN", "2 lost-write in t-0 (the rule)"),
        (verdict(assumptions=(BROKEN,)), "UNKNOWN", "failed check: a: why"),
        (verdict(assumptions=(HINT,)), "VALID", "No violations."),
        (verdict(detectors=(CRASHED,)), "UNKNOWN", "detector d crashed: boom"),
        (verdict(detectors=(IDLE,)), "VALID", "No violations."),
        (verdict(extra_reasons=("odd",)), "UNKNOWN", "odd"),
        (verdict(anomaly(Judgement.FORBIDDEN), assumptions=(BROKEN,)), "INVALID", "2 lost-write"),
    ],
)
def test_outcome_and_reason(found: Verdict, outcome: str, reason: str) -> None:
    """What decides, and what is said first."""
    assert found.outcome == outcome
    assert reason in found.reasons[0]


def test_json_has_the_agreed_fields() -> None:
    """The report reads these."""
    made = json.loads(json.dumps(verdict(anomaly(Judgement.FORBIDDEN)).as_json()))
    assert list(made) == [
        "verdict",
        "headline",
        "reasons",
        "assumptions",
        "topics",
        "promises",
        "anomalies",
        "contract",
        "detectors",
        "engine",
        "checked_at",
        "expectations",
    ]
    (found,) = made["anomalies"]
    assert found["part_of_log"] == "tail"
    assert found["judgement"] == "forbidden"
    assert "cause" not in found
    assert made["detectors"][0]["count"] == 2
