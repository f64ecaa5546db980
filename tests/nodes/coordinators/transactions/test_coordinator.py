"""A transactional id's life: initialised, open, ended, complete, expired."""

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import ProducerStamp
from nodes.coordinators.transactions.coordinator import MOST_CHANGES
from nodes.coordinators.transactions.queries import read_filter
from nodes.coordinators.transactions.settings import DAY_MS, TransactionSettings
from nodes.coordinators.transactions.state import LARGEST_EPOCH, State
from nodes.ids import Offset, TopicPartition
from tests.support.nodes.transaction_driver import FIRST_ID, IN, OUT, TIMEOUT_MS, Transactions

VERSIONS = pytest.mark.parametrize("version", [0, 1, 2])


@VERSIONS
def test_a_transaction_commits(version: int) -> None:
    """It is complete when every partition has its marker."""
    all_of = Transactions(version)
    producer = all_of.producer()
    assert producer == ProducerStamp(FIRST_ID, 0)
    assert all_of.add(producer, IN) is ErrorCode.none
    assert all_of.add(producer, OUT) is ErrorCode.none
    following = all_of.end(producer, commit=True)
    assert following == ProducerStamp(FIRST_ID, 1 if version == 2 else 0)
    (marker,) = all_of.markers()
    assert (marker.partitions, marker.commit) == ((IN, OUT), True)
    assert marker.producer == following
    assert marker.transaction_version == (2 if version == 2 else 0)
    assert all_of.confirm(marker, IN) == 0
    assert [each.partitions for each in all_of.markers()] == [(OUT,)]
    all_of.completed.clear()
    assert all_of.confirm(marker, OUT) == 1
    assert all_of.of().state is State.COMPLETE_COMMIT
    assert all_of.completed == ["t"]
    assert not all_of.of().partitions
    assert all_of.markers() == []


@VERSIONS
def test_an_abort_ends_the_transaction_too(version: int) -> None:
    """The same way, with another marker."""
    all_of = Transactions(version)
    producer = all_of.producer()
    all_of.add(producer, OUT)
    assert isinstance(all_of.end(producer, commit=False), ProducerStamp)
    (marker,) = all_of.markers()
    assert not marker.commit
    all_of.finish()
    assert all_of.of().state is State.COMPLETE_ABORT


def test_markers_wait_until_the_decision_is_committed() -> None:
    """A decision above the high watermark may still be lost with its leader."""
    all_of = Transactions()
    producer = all_of.producer()
    all_of.add(producer, OUT)
    all_of.end(producer, commit=True)
    decided = Offset(len(all_of.driver.log) - 1)
    assert list(all_of.machine.pending_markers(decided)) == []
    assert len(list(all_of.machine.pending_markers(Offset(decided + 1)))) == 1


@VERSIONS
def test_a_new_coordinator_goes_on_with_the_markers(version: int) -> None:
    """They follow from the log. A confirmation that the old one had is asked for again."""
    all_of = Transactions(version)
    producer = all_of.producer()
    all_of.add(producer, IN, OUT)
    all_of.end(producer, commit=True)
    before = all_of.markers()
    all_of.confirm(before[0], IN)
    all_of.driver.fail_over()
    assert all_of.markers() == before
    all_of.finish()
    assert all_of.of().state is State.COMPLETE_COMMIT


@VERSIONS
def test_the_next_producer_fences_the_last(version: int) -> None:
    """It gets the next epoch of the same producer id."""
    all_of = Transactions(version)
    first = all_of.producer()
    second = all_of.producer()
    assert second == ProducerStamp(first.producer_id, 1)
    assert all_of.add(first, OUT) is ErrorCode.producer_fenced
    assert all_of.verify(first, OUT) is ErrorCode.producer_fenced
    assert all_of.end(first, commit=False) is ErrorCode.producer_fenced
    assert all_of.add(second, OUT) is ErrorCode.none


@VERSIONS
def test_the_next_producer_aborts_the_open_transaction(version: int) -> None:
    """It must ask again until that is complete; then its epoch is larger than the fencing one."""
    all_of = Transactions(version)
    first = all_of.producer()
    all_of.add(first, OUT)
    assert all_of.init() is ErrorCode.concurrent_transactions
    assert all_of.init() is ErrorCode.concurrent_transactions
    assert all_of.end(first, commit=True) in (
        ErrorCode.producer_fenced,
        ErrorCode.concurrent_transactions,
    )
    (marker,) = all_of.markers()
    assert (marker.commit, marker.producer.epoch) == (False, 1)
    all_of.finish()
    assert all_of.init() == ProducerStamp(first.producer_id, 2)


def test_an_unknown_or_another_producer_is_refused() -> None:
    """With the errors of Kafka."""
    all_of = Transactions()
    stranger = ProducerStamp(5, 0)
    mapping = ErrorCode.invalid_producer_id_mapping
    for _ in range(2):
        assert all_of.add(stranger, OUT) is mapping
        assert all_of.verify(stranger, OUT) is mapping
        assert all_of.end(stranger, commit=True) is mapping
        all_of.producer()


@pytest.mark.parametrize("name", ["", "x" * 2**15])
def test_an_id_must_fit(name: str) -> None:
    """Empty, as in Kafka; and no longer than a record's key can hold."""
    all_of = Transactions()
    producer = ProducerStamp(1, 0)
    assert all_of.init(name) is ErrorCode.invalid_request
    assert all_of.add(producer, OUT, name=name) is ErrorCode.invalid_request
    assert all_of.end(producer, commit=True, name=name) is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("timeout_ms", "valid"), [(0, False), (1, True), (900_000, True), (900_001, False)]
)
def test_a_time_out_has_a_limit(timeout_ms: int, valid: bool) -> None:
    """transaction.max.timeout.ms."""
    found = Transactions().init(timeout_ms=timeout_ms)
    assert (found is not ErrorCode.invalid_transaction_timeout) is valid


def test_without_producer_ids_the_client_tries_again() -> None:
    """Nothing is written."""
    all_of = Transactions()
    all_of.has_ids = False
    assert all_of.init() is ErrorCode.coordinator_load_in_progress
    assert all_of.driver.log == []
    all_of.has_ids = True
    producer = all_of.at_epoch(LARGEST_EPOCH - 1)
    all_of.add(producer, OUT)
    all_of.has_ids = False
    assert all_of.end(producer, commit=True) is ErrorCode.coordinator_load_in_progress
    assert all_of.init() is ErrorCode.coordinator_load_in_progress
    all_of.driver.advance(2 * TIMEOUT_MS)
    assert all_of.of().state is State.ONGOING
    all_of.has_ids = True
    all_of.driver.advance(10_000)
    assert all_of.of().state is State.PREPARE_ABORT


def test_partitions_of_the_open_transaction_are_not_written_again() -> None:
    """They are in the log already, and the answer waits for its high watermark."""
    all_of = Transactions()
    producer = all_of.producer()
    all_of.add(producer, IN, OUT)
    length = len(all_of.driver.log)
    assert all_of.add(producer, OUT) is ErrorCode.none
    assert len(all_of.driver.log) == length


def test_only_the_partitions_of_the_transaction_are_verified() -> None:
    """KIP-890, part 1: the others would open a transaction that nobody ends."""
    all_of = Transactions(1)
    producer = all_of.producer()
    assert all_of.verify(producer, OUT) is ErrorCode.transaction_abortable
    all_of.add(producer, OUT)
    assert all_of.verify(producer, OUT) is ErrorCode.none
    assert all_of.verify(producer, IN) is ErrorCode.transaction_abortable
    all_of.end(producer, commit=True)
    assert all_of.verify(producer, OUT) is ErrorCode.concurrent_transactions
    all_of.finish()
    assert all_of.verify(producer, OUT) is ErrorCode.transaction_abortable


class TestGoingOn:
    """InitProducerId of a producer that says who it is (KIP-360)."""

    def test_the_producer_gets_the_next_epoch(self) -> None:
        """Its own, or the one that a lost answer gave it."""
        all_of = Transactions()
        producer = all_of.producer()
        following = ProducerStamp(producer.producer_id, 1)
        assert all_of.init(expected=producer) == following
        assert all_of.init(expected=producer) == following
        assert all_of.init(expected=following) == ProducerStamp(producer.producer_id, 2)

    def test_a_producer_that_was_replaced_is_fenced(self) -> None:
        """A producer without an identity came between."""
        all_of = Transactions()
        first = all_of.producer()
        all_of.producer()
        assert all_of.init(expected=first) is ErrorCode.producer_fenced
        assert all_of.init(expected=ProducerStamp(5, 1)) is ErrorCode.producer_fenced
        for half in (ProducerStamp(first.producer_id, -1), ProducerStamp(-1, 0)):
            assert all_of.init(expected=half) is ErrorCode.invalid_request

    def test_a_forgotten_producer_begins_anew(self) -> None:
        """Its id expired, for example."""
        assert Transactions().init(expected=ProducerStamp(5, 7)) == ProducerStamp(FIRST_ID, 0)

    def test_an_exhausted_epoch_takes_a_new_producer_id(self) -> None:
        """A retry gets the same id."""
        all_of = Transactions()
        last = all_of.at_epoch(LARGEST_EPOCH - 1)
        fresh = ProducerStamp(last.producer_id + 1, 0)
        assert all_of.init(expected=last) == fresh
        assert all_of.init(expected=last) == fresh
        assert all_of.init() == ProducerStamp(fresh.producer_id, 1)

    def test_the_last_epoch_is_given_again_to_its_producer(self) -> None:
        """A retry of the request that exhausted the epochs."""
        all_of = Transactions()
        before = all_of.at_epoch(LARGEST_EPOCH - 2)
        last = ProducerStamp(before.producer_id, LARGEST_EPOCH - 1)
        assert all_of.init(expected=before) == last
        assert all_of.init(expected=before) == last

    @pytest.mark.parametrize("version", [0, 1])
    def test_the_fencing_epoch_is_never_given_away(self, version: int) -> None:
        """Before level 2, an abort at the last epoch leaves the largest one (KAFKA-5283)."""
        all_of = Transactions(version)
        last = all_of.at_epoch(LARGEST_EPOCH - 1)
        all_of.add(last, OUT)
        assert all_of.init() is ErrorCode.concurrent_transactions
        all_of.finish()
        assert all_of.of().epoch == LARGEST_EPOCH
        assert all_of.init(expected=last) is ErrorCode.producer_fenced
        assert all_of.init() == ProducerStamp(last.producer_id + 1, 0)


class TestEnding:
    """EndTxn that comes again, or without a transaction."""

    @pytest.mark.parametrize("commit", [True, False])
    def test_one_epoch_for_all(self, commit: bool) -> None:
        """Levels 0 and 1: the state alone tells."""
        all_of = Transactions(1)
        producer = all_of.producer()
        assert all_of.end(producer, commit=commit) is ErrorCode.invalid_txn_state
        all_of.add(producer, OUT)
        all_of.end(producer, commit=commit)
        for again in (True, False):
            assert all_of.end(producer, commit=again) is ErrorCode.concurrent_transactions
        all_of.finish()
        assert all_of.end(producer, commit=commit) == producer
        assert all_of.end(producer, commit=not commit) is ErrorCode.invalid_txn_state

    @pytest.mark.parametrize("commit", [True, False])
    def test_an_epoch_for_each(self, commit: bool) -> None:
        """Level 2: the epoch before the current one marks a retry."""
        all_of = Transactions()
        producer = all_of.producer()
        all_of.add(producer, OUT)
        following = all_of.end(producer, commit=commit)
        assert following == ProducerStamp(producer.producer_id, 1)
        for again in (True, False):
            assert all_of.end(producer, commit=again) is ErrorCode.concurrent_transactions
        all_of.finish()
        length = len(all_of.driver.log)
        assert all_of.end(producer, commit=commit) == following
        assert all_of.end(producer, commit=not commit) is ErrorCode.invalid_txn_state
        assert len(all_of.driver.log) == length

    def test_an_abort_without_partitions_raises_the_epoch(self) -> None:
        """Level 2: in every resting state. A commit of nothing is refused."""
        all_of = Transactions()
        producer = all_of.producer()
        for epoch in (1, 2):
            assert all_of.end(producer, commit=True) is ErrorCode.invalid_txn_state
            following = all_of.end(producer, commit=False)
            assert following == ProducerStamp(producer.producer_id, epoch)
            (marker,) = all_of.markers()
            assert marker.partitions == ()
            assert all_of.confirm(marker) == 1
            assert all_of.of().state is State.COMPLETE_ABORT
            producer = ProducerStamp(producer.producer_id, epoch)
        all_of.add(producer, OUT)
        all_of.end(producer, commit=True)
        all_of.finish()
        assert isinstance(all_of.end(ProducerStamp(FIRST_ID, 3), commit=False), ProducerStamp)

    def test_a_new_transaction_waits_for_the_last(self) -> None:
        """Its producer has the next epoch already, and is not fenced."""
        all_of = Transactions()
        producer = all_of.producer()
        all_of.add(producer, OUT)
        following = all_of.end(producer, commit=True)
        assert isinstance(following, ProducerStamp)
        assert all_of.add(following, OUT) is ErrorCode.concurrent_transactions
        all_of.finish()
        assert all_of.add(following, OUT) is ErrorCode.none


class TestTime:
    """Time-outs and expiry."""

    @VERSIONS
    def test_an_open_transaction_times_out(self, version: int) -> None:
        """It is aborted within the interval of the check; its producer is fenced."""
        all_of = Transactions(version)
        producer = all_of.producer()
        all_of.add(producer, OUT)
        all_of.driver.advance(TIMEOUT_MS - 1)
        assert all_of.of().state is State.ONGOING
        all_of.driver.advance(10_001)
        assert all_of.of().state is State.PREPARE_ABORT
        assert all_of.of().epoch == 1
        all_of.finish()
        assert all_of.add(producer, OUT) is ErrorCode.producer_fenced

    def test_the_time_out_counts_from_the_first_partition(self) -> None:
        """Each transaction has its own."""
        all_of = Transactions()
        producer = all_of.producer()
        all_of.driver.advance(10 * TIMEOUT_MS)
        all_of.add(producer, OUT)
        all_of.driver.advance(TIMEOUT_MS // 2)
        following = all_of.end(producer, commit=True)
        all_of.finish()
        assert isinstance(following, ProducerStamp)
        all_of.add(following, OUT)
        began_ms = all_of.of().start_ms
        all_of.driver.advance(TIMEOUT_MS // 2)
        all_of.add(following, IN)
        assert all_of.of().start_ms == began_ms
        assert all_of.of().state is State.ONGOING
        all_of.driver.advance(TIMEOUT_MS // 2 + 10_000)
        assert all_of.of().state is State.PREPARE_ABORT

    @pytest.mark.parametrize("jump_ms", [-DAY_MS, DAY_MS])
    def test_a_jump_of_the_wall_clock_changes_nothing(self, jump_ms: int) -> None:
        """Once a check has seen the transaction."""
        all_of = Transactions()
        all_of.add(all_of.producer(), OUT)
        all_of.driver.advance(20_000)
        now = all_of.driver.now
        all_of.driver.now = now._replace(wall_ms=now.wall_ms + jump_ms)
        all_of.driver.advance(TIMEOUT_MS - 20_001)
        assert all_of.of().state is State.ONGOING
        all_of.driver.advance(10_001)
        assert all_of.of().state is State.PREPARE_ABORT

    def test_a_new_coordinator_waits_no_longer_than_the_time_out(self) -> None:
        """Also if its wall clock is far behind."""
        all_of = Transactions()
        all_of.add(all_of.producer(), OUT)
        now = all_of.driver.now
        all_of.driver.now = now._replace(wall_ms=now.wall_ms - DAY_MS)
        all_of.driver.fail_over()
        all_of.driver.advance(TIMEOUT_MS + 20_001)
        assert all_of.of().state is State.PREPARE_ABORT

    def test_an_unused_id_expires(self) -> None:
        """Not before, and never with an open transaction."""
        all_of = Transactions(settings=TransactionSettings(id_expiration_ms=DAY_MS))
        all_of.producer("idle")
        producer = all_of.producer("busy")
        all_of.add(producer, OUT, name="busy")
        all_of.end(producer, commit=True, name="busy")
        all_of.driver.advance(DAY_MS - 3_600_000)
        assert sorted(all_of.machine.transactions) == ["busy", "idle"]
        all_of.driver.advance(2 * 3_600_000)
        assert sorted(all_of.machine.transactions) == ["busy"]
        all_of.finish()
        all_of.driver.advance(2 * DAY_MS)
        assert all_of.machine.transactions == {}
        assert all_of.machine.deadline_ms() is None

    def test_many_time_outs_are_ended_in_batches(self) -> None:
        """All of them at the same check, in batches that stay small."""
        all_of = Transactions()
        for at in range(1200):
            all_of.add(all_of.producer(str(at)), OUT, name=str(at))
        before = len(all_of.driver.log)
        later = all_of.driver.now._replace(ms=all_of.driver.now.ms + 10_000)
        assert all_of.machine.tick(later).records == ()
        later = later._replace(ms=later.ms + TIMEOUT_MS)
        ended = all_of.machine.tick(later)
        assert len(ended.records) == MOST_CHANGES
        assert ended.separable  # they may be more than max.message.bytes
        all_of.driver.advance(TIMEOUT_MS + 10_000)
        assert len(all_of.driver.log) == before + 1200
        assert len(all_of.markers()) == 1200


def test_transactions_are_described_and_listed() -> None:
    """For administrators, as in Kafka."""
    all_of = Transactions()
    producer = all_of.producer("a")
    all_of.add(producer, OUT, IN, TopicPartition("out", 0), name="a")
    started_ms = all_of.driver.now.wall_ms
    all_of.driver.advance(5_000)
    other = all_of.producer("b")

    def describe(name: str) -> object:
        return all_of.driver.ask(
            lambda machine, token, now: machine.describe(token, now, transactional_id=name)
        )

    def listing(
        *states: str,
        ids: tuple[int, ...] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> list[str]:
        wanted, _ = read_filter(states, ids, duration_ms, pattern)
        rows = all_of.driver.ask(
            lambda machine, token, now: machine.listing(token, now, wanted=wanted)
        )
        return [row["transactional_id"] for row in rows["transaction_states"]]

    assert describe("a") == {
        "error_code": ErrorCode.none,
        "transactional_id": "a",
        "transaction_state": "Ongoing",
        "transaction_timeout_ms": TIMEOUT_MS,
        "transaction_start_time_ms": started_ms,
        "producer_id": producer.producer_id,
        "producer_epoch": 0,
        "topics": [
            {"topic": "in", "partitions": [0]},
            {"topic": "out", "partitions": [0, 1]},
        ],
    }
    assert describe("c") == {
        "error_code": ErrorCode.transactional_id_not_found,
        "transactional_id": "c",
    }
    assert listing() == ["a", "b"]
    assert listing("Ongoing", "Unknown") == ["a"]
    assert listing("Unknown") == []
    assert read_filter(["Unknown", "Empty"], (), -1)[1] == ["Unknown"]
    assert listing(ids=(other.producer_id,)) == ["b"]
    assert listing(pattern="[b-z]") == ["b"]
    assert listing(pattern="") == ["a", "b"]
    assert listing("Ongoing", duration_ms=5_000) == []
    assert listing("Ongoing", duration_ms=4_999) == ["a"]
