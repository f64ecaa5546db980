"""The rows of kafka-transactions."""

from harness.admin.coordinators import Coordinator
from harness.admin.descriptions import Producer
from harness.admin.transactions import text
from harness.admin.transactions.descriptions import (
    OpenTransaction,
    Transaction,
    TransactionListing,
)
from nodes.ids import TopicPartition

TRANSACTION = Transaction(
    transactional_id="x",
    coordinator=Coordinator(3, "h", 9092),
    producer_id=9,
    producer_epoch=2,
    state="Ongoing",
    timeout_ms=60_000,
    start_ms=1000,
    partitions=(TopicPartition("b", 0), TopicPartition("a", 1)),
)
HANGING = OpenTransaction(
    partition=TopicPartition("a", 1),
    producer=Producer(
        producer_id=9,
        epoch=2,
        last_sequence=7,
        last_timestamp_ms=30_000,
        coordinator_epoch=-1,
        transaction_start=22,
    ),
)


def test_listed_transactions_have_the_number_of_their_coordinator() -> None:
    each = TransactionListing(transactional_id="x", coordinator=3, producer_id=9, state="Empty")
    _, row = text.listing_rows([each])
    assert row == ["x", "3", "9", "Empty"]
    assert text.listing_data(each) == {
        "transactional_id": "x",
        "coordinator": 3,
        "producer_id": 9,
        "state": "Empty",
    }


def test_described_transaction_has_its_duration_and_partitions() -> None:
    """Nothing has begun without a start."""
    header, row = text.transaction_rows([TRANSACTION], 1500)
    assert len(header) == len(row)
    assert row == ["3", "x", "9", "2", "Ongoing", "60000", "1000", "500", "a-1,b-0"]
    empty = Transaction(
        transactional_id="x",
        coordinator=TRANSACTION.coordinator,
        producer_id=9,
        producer_epoch=2,
        state="Empty",
        timeout_ms=60_000,
        start_ms=None,
        partitions=(),
    )
    assert text.transaction_rows([empty], 1500)[1][6:] == ["None", "None", ""]
    data = text.transaction_data(TRANSACTION, 1500)
    assert (data["duration_ms"], data["partitions"]) == (500, ["a-1", "b-0"])
    assert text.transaction_data(empty, 1500)["duration_ms"] is None


def test_hanging_transaction_has_what_its_abort_needs() -> None:
    header, row = text.hanging_rows([HANGING], 150_000)
    assert len(header) == len(row)
    assert row == ["a", "1", "9", "2", "-1", "22", "30000", "2"]
    data = text.hanging_data(HANGING, 150_000)
    assert (data["start_offset"], data["since_last_record_ms"]) == (22, 120_000)
