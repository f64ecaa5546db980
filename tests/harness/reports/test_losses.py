"""The table of lost writes: the worst first, with leader changes and faults from the causes."""

from typing import Any

import pytest

from harness.reports.data import losses
from harness.reports.data.losses import LeaderChange, leader_changes_in, losses_of
from tests.checkers.causes.test_causes import learnt
from tests.support.histories.story import ONE, healthy

NEW = (
    "In t-0, node 3 replaced node 2 as leader at 23.402 s (epoch 5). Writes from offset 1234 on "
    "that only node 2 had were discarded. Faults that affected node 2: fault 1 (pause node 2, "
    "22.000 s to 30.200 s)."
)
OLD = (
    "node 2, leader of t-0 in epoch 3, was deposed at 23.402 s by node 3 in epoch 5 from offset "
    "1234; it knew by 30.611 s; fault 1 (pause node 2, 22.000 s to 30.200 s)"
)


def lost(judgement: str, acks: int | None, count: int, cause: str = "") -> dict[str, Any]:
    return {
        "kind": "lost-write", "judgement": judgement, "acks": acks, "count": count, "topic": "t",
        "partition": 0, "cause": cause, "rule": "a rule", "examples": [{"invoke_ns": 7 * 10**9}],
    }  # fmt: skip


def test_worst_losses_come_first() -> None:
    """By judgement, then by the promise of the acks mode, then by count."""
    found = losses_of(
        {
            "anomalies": [
                lost("permitted", 0, 900), lost("permitted", 1, 5), lost("permitted", 1, 50),
                lost("unknown", 1, 2), lost("forbidden", 1, 1), lost("permitted", -1, 3), "odd",
                {"kind": "duplicate", "judgement": "forbidden", "count": 9},
            ]
        }
    )  # fmt: skip
    assert [(row.judgement, row.acks, row.count) for row in found.rows] == [
        ("forbidden", 1, 1), ("unknown", 1, 2), ("permitted", -1, 3), ("permitted", 1, 50),
        ("permitted", 1, 5), ("permitted", 0, 900),
    ]  # fmt: skip


@pytest.mark.parametrize("cause", [NEW, OLD])
def test_row_has_leader_change_and_fault_of_its_cause(cause: str) -> None:
    """Also for a verdict of an earlier version."""
    (row,) = losses_of({"anomalies": [lost("permitted", 1, 5, cause)]}).rows
    assert row.leader_changes == (LeaderChange(old=2, new=3, epoch=5, at_s=23.402),)
    assert row.faults == ((1, "pause node 2"),)
    assert not row.several
    assert row.first_s == 7.0


def test_row_of_several_possible_causes_has_all_leader_changes() -> None:
    """The record does not tell which of them it was."""
    cause = (
        f"One of 2 causes: (1) {NEW} (2) In t-0, node 4 became leader again at 31.000 s (epoch 6)."
    )
    (row,) = losses_of({"anomalies": [lost("permitted", 1, 5, cause)]}).rows
    assert row.several
    assert [(each.old, each.new, each.epoch) for each in row.leader_changes] == [
        (2, 3, 5), (4, 4, 6),
    ]  # fmt: skip


def test_row_without_a_leader_change_keeps_the_words_of_its_cause() -> None:
    """Other kinds of causes have no columns."""
    (row,) = losses_of({"anomalies": [lost("permitted", 1, 5, "The disk was wiped.")]}).rows
    assert (row.leader_changes, row.faults, row.cause) == ((), (), "The disk was wiped")


def test_rows_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left out silently."""
    monkeypatch.setattr(losses, "MAX_ROWS", 2)
    found = losses_of({"anomalies": [lost("permitted", 1, n) for n in range(5)]})
    assert (len(found.rows), found.left_out) == (2, 3)


def test_leader_change_is_found_in_the_sentence_of_the_checkers() -> None:
    """The words of `checkers.causes` and the pattern of the table belong together."""
    elections = [c for c in learnt(healthy(), ONE) if c.epoch is not None]
    assert elections
    for cause in elections:
        (change,) = leader_changes_in(cause.text)
        assert (change.old, change.new, change.epoch) == (cause.deposed, cause.leader, cause.epoch)
