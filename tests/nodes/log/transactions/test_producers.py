"""Transactions in the producer state: what may be written, what ends, what is never forgotten."""

import pytest

from nodes.ids import Offset
from nodes.log.batch import BatchHeader, read_header
from nodes.log.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from nodes.log.producer_state import Producers
from nodes.log.transactions.markers import Marker, encode_marker
from tests.support.nodes.batches import batch


def whole(_: BatchHeader) -> bool:
    """Nobody can have been forgotten."""
    return True


def trimmed(_: BatchHeader) -> bool:
    """Somebody may have been."""
    return False


def header(sequence: int, *, epoch: int = 0, transactional: bool = True) -> BatchHeader:
    """The header of a batch of one record of producer 9."""
    return read_header(batch(1, producer=(9, epoch, sequence), transactional=transactional))


def end(producers: Producers, offset: int, *, epoch: int = 0, coordinator_epoch: int = 0) -> Marker:
    """An abort marker of producer 9 at an offset."""
    marker = Marker(9, epoch, coordinator_epoch, committed=False)
    producers.end_transaction(read_header(encode_marker(marker, 1000)), Offset(offset), marker)
    return marker


def opened(*, epoch: int = 0) -> Producers:
    """Producer 9 has a transaction that began at offset 100."""
    producers = Producers()
    producers.update(header(0, epoch=epoch), Offset(100))
    return producers


def test_the_first_batch_of_a_transaction_needs_its_verification() -> None:
    """Without a guard, and with one that is not the producer's, it is refused."""
    producers = Producers()
    with pytest.raises(InvalidTransactionState):
        producers.check(header(0), whole)
    guard = producers.start_verification(header(0), 0, supports_epoch_bump=False)
    assert guard is not None
    with pytest.raises(InvalidTransactionState):
        producers.check(header(0), whole)
    assert producers.check(header(0), whole, guard) is None


def test_later_batches_of_an_open_transaction_need_none() -> None:
    """Nor do they get a guard."""
    producers = opened()
    assert producers.start_verification(header(1), 0, supports_epoch_bump=False) is None
    assert producers.check(header(1), whole) is None


@pytest.mark.parametrize("by_marker", [False, True])
def test_a_guard_is_void_after_a_marker_or_a_first_batch(by_marker: bool) -> None:
    """A confirmation of then says nothing about the next transaction (KAFKA-14884)."""
    producers = Producers()
    guard = producers.start_verification(header(0), 0, supports_epoch_bump=False)
    if not by_marker:
        producers.update(header(0), Offset(100))
    end(producers, 101)
    with pytest.raises(InvalidTransactionState):
        producers.check(header(1 if not by_marker else 0), whole, guard)


def test_a_batch_does_not_pass_an_earlier_one_that_is_verified_too() -> None:
    """The lowest sequence goes first, whichever asked first (KAFKA-14904)."""
    producers = Producers()
    guard = producers.start_verification(header(3), 0, supports_epoch_bump=False)
    assert producers.start_verification(header(1), 0, supports_epoch_bump=False) is guard
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(3), trimmed, guard)
    assert producers.check(header(1), trimmed, guard) is None


def test_a_newer_epoch_begins_its_own_order() -> None:
    """What an older epoch asked for does not hold it up."""
    producers = Producers()
    guard = producers.start_verification(header(0), 0, supports_epoch_bump=False)
    producers.start_verification(header(2, epoch=1), 0, supports_epoch_bump=False)
    assert producers.check(header(2, epoch=1), trimmed, guard) is None


def test_with_an_epoch_for_each_transaction_an_unknown_producer_begins_at_zero() -> None:
    """Also where producers may have been forgotten (KIP-890 part 2)."""
    producers = Producers()
    guard = producers.start_verification(header(2), 0, supports_epoch_bump=True)
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(2), trimmed, guard)
    producers = Producers()
    guard = producers.start_verification(header(2), 0, supports_epoch_bump=False)
    assert producers.check(header(2), trimmed, guard) is None


def test_a_retry_of_an_appended_batch_is_a_duplicate_without_a_verification() -> None:
    """Even after the transaction has ended."""
    producers = opened()
    end(producers, 101)
    found = producers.check(header(0), whole)
    assert found is not None
    assert found.base_offset == 100


def test_no_batch_outside_of_an_open_transaction() -> None:
    """As Kafka: INVALID_TXN_STATE."""
    producers = opened()
    with pytest.raises(InvalidTransactionState):
        producers.check(header(1, transactional=False), whole)
    end(producers, 101)
    assert producers.check(header(1, transactional=False), whole) is None


def test_an_open_transaction_of_an_older_epoch_does_not_verify_a_newer_one() -> None:
    """The newer epoch's transaction is another one."""
    producers = opened()
    with pytest.raises(InvalidTransactionState):
        producers.check(header(0, epoch=1), whole)
    assert producers.start_verification(header(0, epoch=1), 0, supports_epoch_bump=False)


def test_an_older_epoch_is_fenced_before_anything_is_asked() -> None:
    """At the start of the verification, and at the append."""
    producers = opened(epoch=2)
    with pytest.raises(InvalidProducerEpoch):
        producers.start_verification(header(1, epoch=1), 0, supports_epoch_bump=False)
    with pytest.raises(InvalidProducerEpoch):
        producers.check(header(1, epoch=1), whole)


def test_a_marker_with_the_next_epoch_fences_late_batches() -> None:
    """KIP-890 part 2; the next transaction begins with sequence 0."""
    producers = opened()
    end(producers, 101, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        producers.check(header(1), whole)
    guard = producers.start_verification(header(0, epoch=1), 0, supports_epoch_bump=True)
    assert producers.check(header(0, epoch=1), whole, guard) is None


@pytest.mark.parametrize(
    ("version", "epoch", "fenced"),
    [(0, 2, True), (0, 3, False), (1, 3, False), (2, 3, True), (2, 4, False)],
)
def test_a_marker_of_an_older_epoch_is_refused(version: int, epoch: int, fenced: bool) -> None:
    """With transaction version 2, also one of the transaction's own epoch (KAFKA-19446)."""
    producers = opened(epoch=3)
    marker = Marker(9, epoch, 0, committed=True)
    if fenced:
        with pytest.raises(InvalidProducerEpoch):
            producers.check_marker(marker, version)
    else:
        producers.check_marker(marker, version)


def test_a_repeated_marker_is_accepted() -> None:
    """Its coordinator may not know that it was written (KAFKA-19999)."""
    producers = opened()
    producers.check_marker(end(producers, 101, epoch=1), 2)
    with pytest.raises(InvalidProducerEpoch):
        producers.check_marker(Marker(9, 0, 0, committed=False), 2)


def test_a_marker_of_an_older_coordinator_is_refused() -> None:
    """Any producer may have been at another coordinator before."""
    producers = opened()
    end(producers, 101, coordinator_epoch=5)
    producers.check_marker(Marker(9, 0, 5, committed=True), 0)
    with pytest.raises(CoordinatorFenced):
        producers.check_marker(Marker(9, 0, 4, committed=True), 0)
    producers.update(header(1), Offset(102))
    with pytest.raises(CoordinatorFenced):
        producers.check_marker(Marker(9, 0, 4, committed=True), 0)


def test_a_producer_with_an_open_transaction_is_never_forgotten() -> None:
    """After its marker it is, counted from the marker's time on (KAFKA-9144)."""
    producers = opened()
    assert producers.forget_idle(10_000, 100) == 0
    end(producers, 101)
    assert producers.forget_idle(1_099, 100) == 0
    assert producers.forget_idle(1_100, 100) == 1


def test_a_verification_that_nobody_waits_for_is_forgotten() -> None:
    """After the time after which a producer is forgotten."""
    producers = Producers()
    guard = producers.start_verification(header(0), 1000, supports_epoch_bump=False)
    producers.forget_idle(1_099, 100)
    assert producers.check(header(0), whole, guard) is None
    producers.forget_idle(1_100, 100)
    with pytest.raises(InvalidTransactionState):
        producers.check(header(0), whole, guard)
