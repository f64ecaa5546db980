"""The headline: whether the contract was kept, and whether acknowledged writes were lost."""

from typing import Any

import pytest

from checkers.contract import headline
from checkers.contract.headline import Standing
from checkers.contract.permissions import RETENTION

UNCLEAN = {
    "permitted_by": "unclean.leader.election.enable=true",
    "prevented_by": ["unclean.leader.election.enable=false"],
}


def lost(count: int, acks: int | None = -1, judgement: str = "permitted", **more: Any) -> Any:
    return {"kind": "lost-write", "judgement": judgement, "acks": acks, "count": count} | more


def output(kind: str, count: int, judgement: str = "forbidden", **more: Any) -> Any:
    return {"kind": kind, "judgement": judgement, "count": count} | more


def of(verdict: str, *anomalies: dict[str, Any]) -> headline.Headline:
    return headline.of({"verdict": verdict, "anomalies": list(anomalies)})


@pytest.mark.parametrize(
    ("found", "standing", "line"),
    [
        (of("VALID"), Standing.CLEAN, "CONTRACT KEPT; NO ACKNOWLEDGED WRITE LOST"),
        (of("VALID", lost(7, 0)), Standing.CLEAN, "CONTRACT KEPT; NO ACKNOWLEDGED WRITE LOST"),
        (
            of("VALID", lost(900, **UNCLEAN), lost(34, partition=1, **UNCLEAN)),
            Standing.LOSSES,
            "CONTRACT KEPT; ACKNOWLEDGED WRITES LOST: 934 acks=all, permitted by "
            "unclean.leader.election.enable=true",
        ),
        (
            of("VALID", lost(3, 1, permitted_by="acks=1"), lost(1, **UNCLEAN)),
            Standing.LOSSES,
            "CONTRACT KEPT; ACKNOWLEDGED WRITES LOST: 1 acks=all, permitted by "
            "unclean.leader.election.enable=true; 3 acks=1, permitted by acks=1",
        ),
        (
            of("INVALID", lost(9, 1, permitted_by="acks=1"), lost(2, judgement="forbidden")),
            Standing.BROKEN,
            "CONTRACT BROKEN; ACKNOWLEDGED WRITES LOST: 2 acks=all, not permitted; "
            "9 acks=1, permitted by acks=1",
        ),
        (of("INVALID"), Standing.BROKEN, "CONTRACT BROKEN"),
        (
            of("INVALID", output("late-output", 3), output("lost-output", 1, cause="because")),
            Standing.BROKEN,
            "CONTRACT BROKEN; THE PROGRAM BROKE ITS CLAIM: 1 input has no output, and 3 inputs had "
            "no output when the program's time was over: because",
        ),
        (
            of("UNKNOWN", output("duplicated-output", 4, "unknown", cause="power was lost")),
            Standing.UNDECIDED,
            "CONTRACT NOT DECIDED; THE PROGRAM'S CLAIM NOT DECIDED: 4 outputs are there again: "
            "power was lost",
        ),
        (
            of("INVALID", output("lost-output", 1), output("late-output", 2, "unknown")),
            Standing.BROKEN,
            "CONTRACT BROKEN; THE PROGRAM BROKE ITS CLAIM: 1 input has no output",
        ),
        (of("UNKNOWN"), Standing.UNDECIDED, "CONTRACT NOT DECIDED"),
        (
            of("UNKNOWN", lost(5, judgement="unknown")),
            Standing.UNDECIDED,
            "CONTRACT NOT DECIDED; ACKNOWLEDGED WRITES LOST: 5 acks=all, unknown whether permitted",
        ),
    ],
)
def test_contract_and_losses_are_two_things(
    found: headline.Headline, standing: Standing, line: str
) -> None:
    """Only a verdict of VALID says that nothing was lost."""
    assert found.standing is standing
    assert found.line == line


def test_expectations_stand_behind_contract_and_losses() -> None:
    """A failed one outweighs whatever was not decided, and a broken contract outweighs it."""
    rows = [
        {"outcome": "failed", "said": "a <= 1, measured 2"},
        {"outcome": "unknown", "said": "b = 0, not measured"},
        {"outcome": "passed", "said": "c = 0, measured 0"},
    ]
    found = {
        (answer, count): headline.of({"verdict": answer, "expectations": rows[-count:]})
        for answer in ("VALID", "UNKNOWN", "INVALID")
        for count in (1, 2, 3)
    }
    assert {key: each.standing for key, each in found.items()} == {
        ("VALID", 1): Standing.CLEAN,
        ("VALID", 2): Standing.UNDECIDED,
        ("VALID", 3): Standing.UNMET,
        ("UNKNOWN", 1): Standing.UNDECIDED,
        ("UNKNOWN", 2): Standing.UNDECIDED,
        ("UNKNOWN", 3): Standing.UNMET,
        ("INVALID", 1): Standing.BROKEN,
        ("INVALID", 2): Standing.BROKEN,
        ("INVALID", 3): Standing.BROKEN,
    }
    assert found["VALID", 3].line == (
        "CONTRACT KEPT; NO ACKNOWLEDGED WRITE LOST; EXPECTATION FAILED: a <= 1, measured 2"
    )


def test_lost_acks_0_writes_are_counted_apart() -> None:
    """acks=0 asks for no acknowledgement."""
    found = of("VALID", lost(2_022, 0), lost(1, 0, partition=1))
    assert not found.losses
    assert found.unacknowledged_text == (
        "2,023 acks=0 writes were lost too; acks=0 asks for no acknowledgement"
    )
    assert of("VALID").unacknowledged_text == ""


def test_what_retention_removed_is_counted_apart() -> None:
    """The topic's owner asked for it, so nothing was lost."""
    removed = {"permitted_by": RETENTION.permitted_by}
    found = of("VALID", lost(7, -1, **removed), lost(5, 1, **removed), lost(3, 0, **removed))
    assert found.standing is Standing.CLEAN
    assert (found.losses, found.unacknowledged) == ((), 0)
    assert found.expired_text == (
        "12 acknowledged writes were removed by the topic's retention "
        "(retention.ms, retention.bytes)"
    )
    assert of("VALID", lost(1, -1, **removed), lost(1, 1)).standing is Standing.LOSSES
    assert of("VALID").expired_text == ""


def test_permitted_duplicates_and_reorderings_are_counted_and_change_no_colour() -> None:
    """Nothing is gone by them; those of acks=0, and what is forbidden, are told elsewhere."""
    duplicate = {"kind": "duplicate", "judgement": "permitted", "acks": 1, "count": 1}
    found = of(
        "VALID",
        duplicate,
        duplicate | {"kind": "reordered-send", "count": 1_200, "acks": -1},
        duplicate | {"acks": 0},
        duplicate | {"judgement": "forbidden"},
    )
    assert found.also == "1 duplicate of acks=1, 1,200 reordered sends of acks=all"
    assert found.standing is Standing.CLEAN


def test_each_loss_has_its_remedy() -> None:
    """One of several is enough."""
    found = of("VALID", lost(1, prevented_by=["flush.messages=1", "min.insync.replicas=2"]))
    assert found.losses[0].remedy == "flush.messages=1 or min.insync.replicas=2"
    assert found.losses[0].text.endswith("permitted by the contract"), (
        "stored by an earlier version"
    )


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"verdict": 7, "anomalies": "none"},
        {"verdict": "VALID", "anomalies": [None, 3, {"kind": "lost-write", "count": "many"}]},
        {"verdict": "VALID", "anomalies": [{"kind": "lost-write", "count": 1, "acks": []}]},
    ],
)
def test_damaged_verdicts_have_a_headline(stored: dict[str, Any]) -> None:
    """Lists show runs of which anything may be left."""
    assert headline.of(stored).line


def test_program_that_kept_its_claim_is_named() -> None:
    """With what its claim permits; not if the verdict is open."""
    promise = {"promise": "at-least-once", "records": 1234, "program": True}
    again = output("duplicated-output", 2, "permitted")
    found = headline.of({"verdict": "VALID", "anomalies": [again], "promises": [promise]})
    assert found.parts[-1] == "the program kept its claim"
    assert found.kept == "the program kept its claim at-least-once for 1,234 inputs"
    assert found.also == "2 outputs are there again"
    open_ = headline.of({"verdict": "UNKNOWN", "anomalies": [again], "promises": [promise]})
    assert open_.claim == ""
