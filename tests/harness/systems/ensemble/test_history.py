"""The history of znodes becomes the rows by which causes are found."""

from typing import Any

import pytest

from harness.systems.ensemble.history import decisions
from harness.systems.ensemble.transactions import Change, Transaction, read_log
from harness.systems.ensemble.znodes import ZnodeError
from harness.systems.monitoring.quorum_times import QuorumTimes
from tests.harness.systems.ensemble.test_transactions import GOLDEN, STATE


def rows_of(*transactions: Transaction) -> list[dict[str, Any]]:
    """The rows of one server's log."""
    return decisions(transactions, 0, QuorumTimes())


def golden() -> list[dict[str, Any]]:
    """The rows of the golden log."""
    return rows_of(*read_log(GOLDEN.read_bytes()))


def state(zxid: int, data: str, path: str = STATE, version: int = 0) -> Transaction:
    """A transaction that sets one znode."""
    change = Change(path=path, data=data.encode(), version=version, created=version == 0)
    return Transaction(zxid=zxid, at_ms=zxid, session=1, changes=(change,))


def test_changes_of_a_partition_become_leader_rows() -> None:
    """Their epoch in the partition is the znode's version; no leader is no number."""
    found = [row for row in golden() if row["kind"] == "leader"]
    assert [(r["leader"], r["leader_epoch"], r["isr"], r["partition_epoch"]) for r in found] == [
        (1, 0, [1, 2], 0),
        (1, 0, [1], 1),
        (1, 0, [1, 2], 2),
        (2, 1, [2], 3),
        (None, 2, [2], 4),
    ]
    assert {(r["topic"], r["partition"], tuple(r["replicas"])) for r in found} == {
        ("orders", 0, (1, 2))
    }
    assert {r["source"] for r in found} == {"metadata-log"}


def test_end_of_a_session_ends_the_brokers_registration() -> None:
    """The znode is ephemeral, so the log has no delete of it; broker 2 deleted its own."""
    found = [(r["kind"], r["node"], r["log_offset"]) for r in golden() if "fenced" in r["kind"]]
    assert found == [("unfenced", 1, 6), ("unfenced", 2, 7), ("fenced", 1, 17), ("fenced", 2, 20)]


def test_each_new_controller_is_a_row_with_its_epoch() -> None:
    """The epoch is raised in the transaction that makes the znode."""
    found = [(r["leader"], r["leader_epoch"]) for r in golden() if r["kind"] == "quorum"]
    assert found == [(1, 1), (2, 2)]


def test_old_session_that_ends_late_does_not_end_the_new_registration() -> None:
    """A broker that restarts fast deletes its old znode and registers with a new session."""
    path = "/brokers/ids/1"
    made = Change(path=path, data=b"{}", ephemeral=True, created=True)
    found = rows_of(
        Transaction(zxid=1, at_ms=1, session=7, changes=(made,)),
        Transaction(zxid=2, at_ms=2, session=8, changes=(Change(path=path, data=None),)),
        Transaction(zxid=3, at_ms=3, session=8, changes=(made,)),
        Transaction(zxid=4, at_ms=4, session=7, closes_session=True),
    )
    assert [row["kind"] for row in found] == ["unfenced", "fenced", "unfenced"]


def test_topic_that_is_made_again_has_the_rows_of_its_last_life() -> None:
    """Rows have no topic ids, and the new topic begins its epochs anew."""
    value = '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":%d,"isr":[1]}'
    topic = "/brokers/topics/orders"
    found = rows_of(
        state(1, '{"partitions":{"0":[1]}}', topic),
        state(2, value % 7),
        state(3, '{"partitions":{"0":[1]}}', topic),
        state(4, value % 0),
    )
    assert [row["leader_epoch"] for row in found] == [0]


def test_unreadable_znode_is_an_error_that_names_its_path() -> None:
    """Evidence that cannot be read must not be left out silently."""
    with pytest.raises(ZnodeError, match=STATE):
        rows_of(state(1, "{}"))


def test_times_are_those_of_the_run_as_far_as_they_were_plausible() -> None:
    """A leader of the ensemble with a wrong clock stamps an hour too late."""
    times = QuorumTimes()
    times.record(epoch=0, log_end=2, high_watermark=2, asked_ns=1_000, answered_ns=2_000)
    times.record(epoch=0, log_end=6, high_watermark=6, asked_ns=3_000, answered_ns=4_000)
    value = '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    late = state(5, value)
    stamped = Transaction(zxid=5, at_ms=3_600_000, session=1, changes=late.changes)
    [row] = decisions([stamped], 0, times)
    assert row["at_ns"] == 4_000
