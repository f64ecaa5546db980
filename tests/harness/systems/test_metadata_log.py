"""What of a metadata log counts, and when."""

from uuid import UUID

from harness.systems.metadata_log import counting, decoded
from nodes.ids import BrokerEpoch, NodeId
from nodes.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    TopicRecord,
    encode,
)

A, B, C = (TopicRecord(name=name, topic_id=UUID(int=n)) for n, name in enumerate("abc", start=1))
BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def test_a_transaction_counts_at_its_end() -> None:
    """All of it at once, with the batch that ends it (KIP-868)."""
    batches = [(A,), (BEGIN, B), (C,), (END,), (A,)]
    assert list(counting(batches)) == [(A,), (), (), (B, C), (A,)]


def test_a_transaction_within_a_batch_counts_with_it() -> None:
    """In its order among the others."""
    assert list(counting([(A, BEGIN, B, END, C)])) == [(A, B, C)]


def test_an_aborted_or_open_transaction_never_counts() -> None:
    """Nobody has ever seen what is in it."""
    assert list(counting([(BEGIN, A, ABORT, B), (BEGIN, C)])) == [(B,), ()]


def test_other_records_are_passed_over() -> None:
    """Also those that this project knows nothing of."""
    unknown = bytes([1, 28, 0]) + b"whatever"
    feature = encode(FeatureLevelRecord(name="f", feature_level=1))
    assert decoded([unknown, None, b"", encode(A), feature]) == (A,)


def test_records_that_gained_only_tagged_fields_are_read_in_all_versions() -> None:
    """Kafka's controller fences by version 0, which has no log directories."""
    record = BrokerRegistrationChangeRecord(
        broker_id=NodeId(3), broker_epoch=BrokerEpoch(7), fenced=1
    )
    value = encode(record)
    assert value[2] > 0
    assert decoded([value[:2] + b"\0" + value[3:]]) == (record,)
