"""Last stable offsets that are too high, too low, or go back are found; all others are not."""

from typing import Any

import pytest

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.stable_offsets import LogTransactions, StableOffsetChecker
from nodes.ids import Epoch, NodeId, Offset
from nodes.log.batch import read_header
from nodes.log.cleaning.fillers import filler
from nodes.log.transactions.unstable import UnstableTransactions
from tests.support.nodes.batches import batch, content, end_transaction, write_in_transaction
from tests.support.nodes.fetching import FetchBroker

P, Q = 7, 8


def transactions(made: FetchBroker, *, witnessed_from: int = 0) -> LogTransactions:
    """Those of the replica's log."""
    model = LogTransactions()
    model.witnessed_from = witnessed_from
    for stored in content(made.replica(0).log):
        model.append(read_header(stored))
    return model


def broker() -> FetchBroker:
    """P committed 0..2, Q has an open transaction from 1 on; all is committed by the replicas."""
    made = FetchBroker(1)
    log = made.replica(0).log
    write_in_transaction(log, (P, 0, 0))
    write_in_transaction(log, (Q, 0, 0))
    end_transaction(log, P, committed=True)
    made.replica(0).append(batch())
    made.commit(0)
    return made


def judge(made: FetchBroker) -> None:
    """Judge the replica as it is."""
    StableOffsetChecker(made.replica(0), 1).check(transactions(made))


def wrong(monkeypatch: pytest.MonkeyPatch, offset: int | None) -> None:
    """Every log has this first unstable offset."""
    monkeypatch.setattr(UnstableTransactions, "first_unstable", lambda self, hw: offset)


def test_a_sound_replica_keeps_the_rules_at_every_moment() -> None:
    """While transactions begin, end and are committed."""
    made = FetchBroker(1)
    replica, checker = made.replica(0), StableOffsetChecker(made.replica(0), 1)
    steps: list[Any] = [
        lambda: write_in_transaction(replica.log, (P, 0, 0)),
        lambda: write_in_transaction(replica.log, (Q, 0, 0)),
        lambda: made.commit(0),
        lambda: end_transaction(replica.log, P),
        lambda: replica.append(batch()),
        lambda: made.commit(0),
        lambda: end_transaction(replica.log, Q, epoch=1, transaction_version=2),
        lambda: made.commit(0),
        lambda: replica.log.advance_start(replica.log.end_offset),
    ]
    seen = []
    for step in steps:
        step()
        checker.check(transactions(made))
        seen.append(replica.last_stable_offset)
    assert seen == [0, 0, 0, 0, 0, 1, 1, 5, 5]


@pytest.mark.parametrize("first", [None, 2, 3])
def test_an_end_above_an_open_transaction_is_found(
    monkeypatch: pytest.MonkeyPatch, first: int | None
) -> None:
    """Readers would get records whose fate is open."""
    made = broker()
    wrong(monkeypatch, first)
    with pytest.raises(InvariantBroken, match="from 1 to 1"):
        judge(made)


def test_an_end_that_is_stuck_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers would wait for ever."""
    made = broker()
    wrong(monkeypatch, 0)
    with pytest.raises(InvariantBroken, match="from 1 to 1"):
        judge(made)


def test_an_end_above_a_marker_that_is_not_committed_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The marker may be lost with the leader."""
    made = broker()
    end_transaction(made.replica(0).log, Q)
    judge(made)
    wrong(monkeypatch, None)
    with pytest.raises(InvariantBroken, match="from 1 to 1"):
        judge(made)


def test_an_end_above_a_marker_from_before_a_start_is_permitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The snapshot of producers does not have it; nor has Kafka's."""
    made = broker()
    end_transaction(made.replica(0).log, Q)
    before = transactions(made, witnessed_from=made.replica(0).log.end_offset)
    for first in (None, 1):
        wrong(monkeypatch, first)
        StableOffsetChecker(made.replica(0), 1).check(before)
    wrong(monkeypatch, 0)
    with pytest.raises(InvariantBroken, match="from 1 to 4"):
        StableOffsetChecker(made.replica(0), 1).check(before)


def test_deleted_records_may_have_begun_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the end may be the log's start."""
    made = broker()
    end_transaction(made.replica(0).log, Q)
    made.commit(0)
    made.replica(0).log.advance_start(made.replica(0).state.high_watermark)
    wrong(monkeypatch, 0)
    judge(made)


def test_an_end_that_goes_back_is_found_in_one_leader_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new leader may know of another one."""
    made = broker()
    end_transaction(made.replica(0).log, Q)
    before = transactions(made, witnessed_from=made.replica(0).log.end_offset)
    checker = StableOffsetChecker(made.replica(0), 1)
    wrong(monkeypatch, 3)
    checker.check(before)
    wrong(monkeypatch, 1)
    with pytest.raises(InvariantBroken, match="goes back from 3 to 1"):
        checker.check(before)
    made.assign(0, leader=NodeId(1), epoch=9)
    checker.check(before)


def test_a_marker_without_its_record_ends_no_later_transaction() -> None:
    """As on the broker, to which a cleaned marker is an abort."""
    model = LogTransactions()
    model.append(read_header(batch(1, producer=(P, 0, 0), transactional=True)))
    empty = read_header(batch(1, producer=(P, 0, -1), transactional=True, base_offset=1))
    cleaned = empty._replace(attributes=0x30, record_count=0)
    model.append(cleaned._replace(producer_epoch=-1))
    assert model.bounds(2) == (0, 0)
    model.append(cleaned)
    assert model.bounds(2) == (2, 2)


def test_an_uncommitted_marker_may_end_a_transaction_whose_records_were_cleaned() -> None:
    """After a restart the high watermark may lie below what was cleaned."""
    model = LogTransactions()
    model.append(filler(Offset(0), Offset(3), Epoch(0)))
    marker = read_header(batch(1, producer=(P, 0, -1), transactional=True, base_offset=3))
    model.append(marker._replace(attributes=0x30))
    assert model.bounds(3) == (0, 3)
    assert model.bounds(4) == (4, 4)


def test_an_open_transaction_may_have_ended_and_been_cleaned_before() -> None:
    """An unclean leader did not have its marker."""
    model = LogTransactions()
    model.append(filler(Offset(0), Offset(2), Epoch(0)))
    model.append(read_header(batch(1, producer=(P, 0, 0), transactional=True, base_offset=3)))
    assert model.bounds(4) == (3, 3)  # it was seen to be appended
    model.witnessed_from = 4
    assert model.bounds(4) == (0, 3)


def test_a_transaction_may_have_begun_with_records_that_were_cleaned() -> None:
    """After a restart its marker may lie above the high watermark again (seed 92602)."""
    model = LogTransactions()
    model.append(filler(Offset(0), Offset(2), Epoch(0)))
    model.append(read_header(batch(1, producer=(P, 0, 0), transactional=True, base_offset=3)))
    marker = read_header(batch(1, producer=(P, 0, -1), transactional=True, base_offset=4))
    model.append(marker._replace(attributes=0x30))
    assert model.bounds(4) == (3, 3)  # it was seen to be appended
    model.witnessed_from = 5
    assert model.bounds(4) == (0, 4)
    assert model.bounds(5) == (5, 5)


def test_a_damaged_disk_may_have_lost_the_marker_of_what_was_cleaned() -> None:
    """The snapshot of producers still has the transaction as open (seed 108536)."""
    model = LogTransactions()
    model.append(filler(Offset(2), Offset(5), Epoch(0)))
    assert model.bounds(5) == (5, 5)
    model.damaged = True
    assert model.bounds(5) == (2, 5)
    whole = LogTransactions()
    whole.damaged = True
    assert whole.bounds(5) == (5, 5)  # no record was cleaned
