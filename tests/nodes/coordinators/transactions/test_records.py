"""The records of __transaction_state: Kafka's bytes."""

from dataclasses import replace

import pytest

from nodes.coordinators.records import CoordinatorRecord, RecordError
from nodes.coordinators.transactions import records
from nodes.coordinators.transactions.state import State, Transaction
from nodes.ids import TopicPartition

ONGOING = Transaction(
    transactional_id="ab",
    producer_id=7,
    previous_producer_id=6,
    next_producer_id=9,
    epoch=3,
    timeout_ms=60_000,
    state=State.ONGOING,
    partitions=frozenset([TopicPartition("x", 2), TopicPartition("x", 1), TopicPartition("y", 0)]),
    start_ms=5,
    updated_ms=6,
    client_version=2,
)
KEY = "0000 0002 6162"
BODY = "0000000000000007 0003 0000ea60 01"
TIMES = "0000000000000006 0000000000000005"
NEWEST = (
    f"0001 {BODY} 03 0278 03 00000001 00000002 00 0279 02 00000000 00 {TIMES}"
    " 03 00 08 0000000000000006 01 08 0000000000000009 02 02 0002"
)
OLDEST = (
    f"0000 {BODY} 00000002 0001 78 00000002 00000001 00000002 0001 79 00000001 00000000 {TIMES}"
)


def test_version_1_is_flexible_with_tags() -> None:
    """transaction.version 1 and 2 write it."""
    assert records.encode(ONGOING, 2) == CoordinatorRecord(
        bytes.fromhex(KEY), bytes.fromhex(NEWEST)
    )


def test_version_0_has_no_tags() -> None:
    """transaction.version 0 writes it, if nothing would be lost."""
    old = replace(ONGOING, client_version=0, next_producer_id=-1)
    assert records.encode(old, 0).value == bytes.fromhex(OLDEST)
    assert records.encode(ONGOING, 0).value == bytes.fromhex(NEWEST)


def test_a_record_says_all_but_the_last_epoch() -> None:
    """Version 0 does not know the previous producer id either."""
    old = replace(ONGOING, client_version=0, next_producer_id=-1)
    assert records.decode(records.encode(ONGOING, 2)) == ("ab", ONGOING)
    forgets = replace(old, previous_producer_id=-1)
    assert records.decode(records.encode(old, 0)) == ("ab", forgets)


@pytest.mark.parametrize("version", [0, 2])
def test_an_empty_transaction_has_null_partitions(version: int) -> None:
    """As in Kafka: null in the state Empty, an empty array in later states."""
    empty = Transaction(transactional_id="ab", producer_id=7, epoch=0, timeout_ms=1, updated_ms=6)
    value = records.encode(empty, version).value
    assert value is not None
    null = "ffffffff" if version == 0 else "00"
    head = "0000000000000007 0000 00000001 00" + null
    assert value[2 : 2 + len(bytes.fromhex(head))] == bytes.fromhex(head)
    assert records.decode(records.encode(empty, version)) == ("ab", empty)


def test_a_tombstone_removes_the_id() -> None:
    """It has the key alone."""
    assert records.tombstone("ab") == CoordinatorRecord(bytes.fromhex(KEY), None)
    assert records.decode(records.tombstone("ab")) == ("ab", None)


def test_a_newer_type_of_record_is_passed_over() -> None:
    """As Kafka does."""
    assert records.decode(CoordinatorRecord(bytes.fromhex("0001 0000"), b"")) is None


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_state_that_is_never_written_is_damage(status: int) -> None:
    """Dead and PrepareEpochFence are only in Kafka's memory."""
    value = bytearray(bytes.fromhex(NEWEST))
    value[16] = status % 256
    with pytest.raises(RecordError):
        records.decode(CoordinatorRecord(bytes.fromhex(KEY), bytes(value)))
