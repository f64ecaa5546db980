"""The table of promises counts what groups and readers got, by what was promised to them."""

from typing import Any

import pytest

from checkers.check import check
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.story import healthy


def promises(name: str) -> dict[str, dict[str, Any]]:
    """The table of a golden history, by promise."""
    story = ALL_GOLDEN[name].story()
    verdict = check(story.sources(), story.plan)
    assert not verdict.extra_reasons
    return {row["promise"]: dict(row) for row in verdict.promises}


def test_run_without_groups_has_no_table() -> None:
    """Nor one whose readers say nothing of their isolation level."""
    story = healthy()
    assert check(story.sources(), story.plan).as_json()["promises"] == []


@pytest.mark.parametrize(
    ("name", "promise", "column", "count", "judgement"),
    [
        ("group_skipped_records", "at-least-once", "skipped", 2, "forbidden"),
        ("group_skipped_records_at_most_once", "at-most-once", "skipped", 2, "permitted"),
        ("group_without_a_promise_skipped_records", "no promise", "skipped", 2, "informational"),
        ("committed_record_was_not_copied", "at-least-once", "skipped", 1, "forbidden"),
        (
            "records_were_delivered_again_after_a_rebalance",
            "at-least-once",
            "twice",
            2,
            "permitted",
        ),
        ("record_was_copied_again_exactly_once", "exactly-once", "twice", 1, "forbidden"),
        ("committed_transaction_is_torn", "read_committed", "torn", 1, "forbidden"),
        ("aborted_transaction_was_read", "read_committed", "aborted", 1, "forbidden"),
        (
            "aborted_transaction_was_read_at_read_uncommitted",
            "read_uncommitted",
            "aborted",
            2,
            "permitted",
        ),
    ],
)
def test_row_counts_an_anomaly_with_its_judgement_and_cause(
    name: str, promise: str, column: str, count: int, judgement: str
) -> None:
    """Each column counts its own kinds."""
    row = promises(name)[promise]
    assert row[column] == count
    assert [(each["judgement"], each["count"]) for each in row["causes"]] == [(judgement, count)]
    assert row["causes"][0]["cause"] or judgement == "informational"


def test_permitted_row_names_what_happened_and_what_permits_it() -> None:
    """The cause of a second delivery is the rebalance."""
    row = promises("records_were_delivered_again_after_a_member_ended")["at-least-once"]
    assert row["causes"][0]["cause"] == "member-ended; permitted by processing=at-least-once"
    assert row["groups"] == ["readers"]
    assert row["records"] == 6


def test_levels_count_what_their_readers_got() -> None:
    """Two polled records at read_uncommitted, and the final reads at read_committed."""
    found = promises("committed_transaction_was_read_at_read_uncommitted")
    assert {name: row["records"] for name, row in found.items()} == {
        "read_uncommitted": 2,
        "read_committed": 22,
    }
    assert found["read_committed"]["torn"] == 0
    assert found["read_committed"]["skipped"] is None
