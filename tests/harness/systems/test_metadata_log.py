"""What of a metadata log counts, and when."""

from uuid import UUID

from harness.systems.metadata_log import committed, decode_relevant
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


def test_records_of_a_transaction_take_effect_at_its_end() -> None:
    """All of them take effect with the batch that ends it (KIP-868)."""
    batches = [(A,), (BEGIN, B), (C,), (END,), (A,)]
    assert list(committed(batches)) == [(A,), (), (), (B, C), (A,)]


def test_transaction_within_one_batch_takes_effect_with_the_batch() -> None:
    """Its records keep their order among the others."""
    assert list(committed([(A, BEGIN, B, END, C)])) == [(A, B, C)]


def test_aborted_or_open_transaction_never_takes_effect() -> None:
    """Nobody has ever seen what is in it."""
    assert list(committed([(BEGIN, A, ABORT, B), (BEGIN, C)])) == [(B,), ()]


def test_records_of_other_kinds_are_skipped() -> None:
    """Kinds that this project does not know are skipped, too."""
    unknown = bytes([1, 28, 0]) + b"whatever"
    feature = encode(FeatureLevelRecord(name="f", feature_level=1))
    assert decode_relevant([unknown, None, b"", encode(A), feature]) == (A,)


def test_records_that_gained_only_tagged_fields_are_read_in_all_versions() -> None:
    """Kafka's controller fences with version 0, which has no log directories."""
    record = BrokerRegistrationChangeRecord(
        broker_id=NodeId(3), broker_epoch=BrokerEpoch(7), fenced=1
    )
    value = encode(record)
    assert value[2] > 0
    assert decode_relevant([value[:2] + b"\0" + value[3:]]) == (record,)
