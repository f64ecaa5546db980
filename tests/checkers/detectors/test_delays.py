"""When faults made requests late, and which transactions that may have changed."""

import json
from typing import Any

import pytest

from checkers.check import check
from checkers.history.recorded_faults import LATE_NS, LONGEST_PAUSE_NS, delays
from checkers.history.settings import FOREVER_NS
from tests.support.histories.golden.ended_transactions import ID, old_transactions
from tests.support.histories.story import ALL, PRODUCER, S, Story, healthy, v

LATE_S = LATE_NS // S
CUT = json.dumps({"cuts": [[3, 1], [1, 3]]})


def fault(from_s: float, to_s: float | None, kind: str = "cut.port", **more: Any) -> dict[str, Any]:
    """A row of the faults' table."""
    times = {"started_ns": round(from_s * S), "effective_ns": round(from_s * S)}
    times["healed_ns"] = None if to_s is None else round(to_s * S)
    row = {"fault_id": 1, "fault": kind, "label": None, "targets": CUT, "error": None}
    return row | times | {"effect": "x", "took_effect": True} | more


@pytest.mark.parametrize(
    ("rows", "spans"),
    [
        ([], []),
        ([fault(10, 13)], [(10, 16 + LATE_S)]),
        ([fault(10, 13, "pause", targets="[3]")], [(10, 16 + LATE_S)]),
        ([fault(10, 13, "kill", targets="[3]")], []),
        ([fault(10, 13, took_effect=False, error="not injected: no such link")], []),
        ([fault(10, 13, took_effect=False, error="its effect was not seen")], [(10, 16 + LATE_S)]),
        ([fault(100, 500)], [(100, 500 + LONGEST_PAUSE_NS // S + LATE_S)]),
        ([fault(10, 11), fault(40, 41)], [(10, 12 + LATE_S), (40, 42 + LATE_S)]),
        ([fault(40, 41), fault(10, 20), fault(30, 31)], [(10, 72 + LATE_S)]),
        ([fault(10, 40), fault(12, 13)], [(10, 70 + LATE_S)]),
    ],
)
def test_when_requests_may_be_late(
    rows: list[dict[str, Any]], spans: list[tuple[int, int]]
) -> None:
    """Until the end of the fault, and as long again; faults that follow one another add up."""
    assert delays(rows) == tuple((start * S, end * S) for start, end in spans)


def test_fault_without_an_end_makes_requests_late_for_ever() -> None:
    """Nobody healed it."""
    ((start_ns, end_ns),) = delays([fault(10, None), fault(20, 30)])
    assert start_ns == 10 * S
    assert end_ns >= FOREVER_NS


def _torn(s: Story, txn: int, at_s: float, first: int) -> None:
    """A committed transaction of two records, of which the log has the first."""
    columns = {"txn": txn, "transactional_id": ID, "complete_ns": round((at_s + 0.2) * S)}
    for number in (0, 1):
        s.send(ALL, 97 + first + number, 20 + first + number, at_s + number / 100, **columns)
    s.row("commit-transaction", PRODUCER[ALL], at_s + 0.1, txn=txn, transactional_id=ID)
    s.read_in_the_end(ALL, 20 + first, v(ALL, 97 + first), isolation=1)


def test_each_transaction_needs_its_own_delay() -> None:
    """The fault that explains one transaction does not explain another one of the partition."""
    story = healthy()
    _torn(story, 1, 20, 0)
    _torn(story, 2, 40, 2)
    old_transactions(story)
    verdict = check(story.sources(), story.plan)
    torn = [each for each in verdict.anomalies if each.kind == "torn-transaction"]
    assert {(each.judgement.value, each.count) for each in torn} == {
        ("permitted", 1),
        ("forbidden", 1),
    }
    (forbidden,) = (each for each in torn if each.judgement.value == "forbidden")
    assert [row["value"] for row in forbidden.examples] == [v(ALL, 100)]
