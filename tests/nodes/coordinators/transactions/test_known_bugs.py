"""Bugs of transaction coordinators that were found elsewhere: each would fail its test here."""

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import ProducerStamp
from nodes.coordinators.transactions.state import LARGEST_EPOCH, State
from tests.support.nodes.transaction_driver import IN, OUT, TIMEOUT_MS, Transactions

LEVELS = pytest.mark.parametrize("version", [0, 1, 2])


@pytest.mark.parametrize("commit", [True, False])
def test_kafka_17754_a_late_end_does_not_end_the_next_transaction(commit: bool) -> None:
    """From level 2 on, it has an old epoch. Before, it cannot be told from a new one."""
    for version in (0, 1, 2):
        all_of = Transactions(version)
        first = all_of.producer()
        all_of.add(first, OUT)
        second = all_of.end(first, commit=True)
        all_of.finish()
        assert isinstance(second, ProducerStamp)
        all_of.add(second, OUT)
        late = all_of.end(first, commit=commit)
        assert late == (ErrorCode.producer_fenced if version == 2 else first)


def test_kafka_18575_no_partition_joins_a_transaction_that_is_being_ended() -> None:
    """Neither with the epoch that ends nor with the one that begins."""
    all_of = Transactions()
    first = all_of.producer()
    all_of.add(first, OUT)
    second = all_of.end(first, commit=True)
    assert isinstance(second, ProducerStamp)
    for producer in (first, second):
        assert all_of.add(producer, OUT) is ErrorCode.concurrent_transactions
    all_of.finish()
    assert all_of.add(first, OUT) is ErrorCode.producer_fenced
    assert all_of.of().partitions == frozenset()
    assert all_of.add(second, OUT) is ErrorCode.none
    assert all_of.of().partitions == {OUT}


@pytest.mark.parametrize("commit", [True, False])
def test_kafka_18660_an_overflow_moves_the_producer_to_a_new_id(commit: bool) -> None:
    """Its next transaction waits, and is not fenced; a retry of the end gets the same identity."""
    all_of = Transactions()
    last = all_of.at_epoch(LARGEST_EPOCH - 1)
    all_of.add(last, OUT)
    fresh = all_of.end(last, commit=commit)
    assert fresh == ProducerStamp(last.producer_id + 1, 0)
    (marker,) = all_of.markers()
    assert marker.producer == ProducerStamp(last.producer_id, LARGEST_EPOCH)
    assert all_of.add(fresh, OUT) is ErrorCode.concurrent_transactions
    assert all_of.end(last, commit=commit) is ErrorCode.concurrent_transactions
    all_of.driver.fail_over()
    all_of.finish()
    assert all_of.end(last, commit=commit) == fresh
    assert all_of.end(last, commit=not commit) is ErrorCode.invalid_txn_state
    assert all_of.add(fresh, OUT) is ErrorCode.none
    assert all_of.end(last, commit=commit) is ErrorCode.invalid_producer_id_mapping


@LEVELS
@pytest.mark.parametrize("epoch", [5, LARGEST_EPOCH - 2, LARGEST_EPOCH - 1])
def test_kafka_19367_fencing_raises_the_epoch_once(version: int, epoch: int) -> None:
    """The abort of level 2 is the fence; so the largest epoch does not overflow."""
    all_of = Transactions(version)
    all_of.add(all_of.at_epoch(epoch), OUT)
    assert all_of.init() is ErrorCode.concurrent_transactions
    assert all_of.of().epoch == epoch + 1
    all_of.finish()
    assert isinstance(all_of.init(), ProducerStamp)


@LEVELS
def test_kafka_20090_the_largest_epoch_ends_too(version: int) -> None:
    """No producer is given it. A request with it still leaves a transaction that can be ended."""
    all_of = Transactions(version)
    all_of.add(all_of.at_epoch(LARGEST_EPOCH), OUT)
    all_of.driver.advance(TIMEOUT_MS + 10_001)
    assert all_of.of().state is State.PREPARE_ABORT
    all_of.finish()
    assert isinstance(all_of.init(), ProducerStamp)


@LEVELS
def test_kafka_20090_a_time_out_at_the_last_epoch_leaves_no_open_transaction(version: int) -> None:
    """A late abort of its producer, and the transactions after it, end as well."""
    all_of = Transactions(version)
    last = all_of.at_epoch(LARGEST_EPOCH - 1)
    all_of.add(last, OUT)
    all_of.driver.advance(TIMEOUT_MS + 10_001)
    assert all_of.of().state is State.PREPARE_ABORT
    all_of.end(last, commit=False)
    all_of.finish()
    late = all_of.end(last, commit=False)
    following = late if isinstance(late, ProducerStamp) else all_of.producer()
    assert following == ProducerStamp(last.producer_id + 1, 0)
    assert all_of.add(following, OUT) is ErrorCode.none
    all_of.driver.advance(TIMEOUT_MS + 10_001)
    all_of.finish()
    assert all_of.of().state is State.COMPLETE_ABORT


@LEVELS
def test_kafka_19999_markers_that_are_sent_again_have_the_epoch_of_the_first(version: int) -> None:
    """So a leader can see that it wrote them. The epoch is not raised by trying again."""
    all_of = Transactions(version)
    producer = all_of.producer()
    all_of.add(producer, OUT)
    all_of.end(producer, commit=True)
    first = all_of.markers()
    all_of.driver.advance(60 * TIMEOUT_MS)
    all_of.driver.fail_over()
    assert all_of.markers() == first


@LEVELS
def test_kafka_9600_the_client_does_not_raise_its_epoch(version: int) -> None:
    """An EndTxn with a larger epoch than was given is refused."""
    all_of = Transactions(version)
    producer = all_of.producer()
    all_of.add(producer, OUT)
    ahead = ProducerStamp(producer.producer_id, producer.epoch + 1)
    for commit in (True, False):
        assert all_of.end(ahead, commit=commit) is ErrorCode.producer_fenced
    assert all_of.of().state is State.ONGOING


@LEVELS
def test_kafka_9666_an_append_that_fails_raises_no_epoch(version: int) -> None:
    """However often the producer asks while the log takes no record."""
    all_of = Transactions(version)
    all_of.add(all_of.producer(), OUT)
    for _ in range(3):
        all_of.machine.init_producer_id(
            0,  # type: ignore[arg-type]
            all_of.driver.now,
            transactional_id="t",
            timeout_ms=TIMEOUT_MS,
            expected=None,
        )
    assert (all_of.of().state, all_of.of().epoch) == (State.ONGOING, 0)
    assert all_of.init() is ErrorCode.concurrent_transactions
    assert all_of.of().epoch == 1


@LEVELS
def test_kafka_6119_a_time_out_fences_the_producer(version: int) -> None:
    """Otherwise it would go on writing in a transaction that is aborted."""
    all_of = Transactions(version)
    producer = all_of.producer()
    all_of.add(producer, OUT)
    all_of.driver.advance(TIMEOUT_MS + 10_001)
    (marker,) = all_of.markers()
    assert marker.producer.epoch == producer.epoch + 1
    all_of.finish()
    assert all_of.add(producer, IN) is ErrorCode.producer_fenced
    assert all_of.end(producer, commit=True) in (
        ErrorCode.producer_fenced,
        ErrorCode.invalid_txn_state,
    )


@LEVELS
def test_kafka_10080_a_completion_is_written_once(version: int) -> None:
    """However often, and by however late an answer, its markers are confirmed."""
    all_of = Transactions(version)
    producer = all_of.producer()
    all_of.add(producer, IN, OUT)
    following = all_of.end(producer, commit=True)
    (marker,) = all_of.markers()
    assert all_of.confirm(marker) == 1
    assert all_of.confirm(marker) == 0
    assert isinstance(following, ProducerStamp)
    all_of.add(following, IN)
    assert all_of.confirm(marker) == 0
    all_of.end(following, commit=False)
    assert all_of.confirm(marker) == 0
    assert all_of.of().state is State.PREPARE_ABORT


@LEVELS
def test_redpanda_6019_no_begin_is_answered_from_memory(version: int) -> None:
    """It is a record; a new coordinator knows every partition that was ever answered for."""
    all_of = Transactions(version)
    producer = all_of.producer()
    before = len(all_of.driver.log)
    all_of.add(producer, OUT)
    assert len(all_of.driver.log) == before + 1
    all_of.driver.fail_over()
    assert all_of.of().partitions == {OUT}
    assert all_of.of().state is State.ONGOING


@LEVELS
def test_redpanda_3501_a_commit_that_comes_again_is_not_an_abort(version: int) -> None:
    """It is answered as committed, also by a new coordinator."""
    all_of = Transactions(version)
    producer = all_of.producer()
    all_of.add(producer, OUT)
    following = all_of.end(producer, commit=True)
    all_of.driver.fail_over()
    assert all_of.end(producer, commit=True) is ErrorCode.concurrent_transactions
    all_of.finish()
    all_of.driver.fail_over()
    assert all_of.end(producer, commit=True) == following
    assert all_of.end(producer, commit=False) is ErrorCode.invalid_txn_state
    assert all_of.of().state is State.COMPLETE_COMMIT
