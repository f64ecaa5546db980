"""The records of __transaction_state, as Kafka 4.2 writes them (KIP-98, KIP-915, KIP-890).

There is one type of record. Its key is a transactional id, its value all that is remembered of the
id. Version 0 of the value is that of transaction.version 0. Version 1 adds tagged fields.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.static.constants import EntityType
from kio.static.primitive import i16

from nodes.coordinators.records import (
    CoordinatorRecord,
    Decoded,
    RecordError,
    RecordType,
    RecordTypes,
)
from nodes.coordinators.transactions.state import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    State,
    Transaction,
)
from nodes.ids import TopicPartition
from nodes.record_schemas import Schema, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogKey:
    """The key: a transactional id."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    transactional_id: str = field(metadata=wire("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTopic:
    """The partitions of one topic in a transaction."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    topic: str = field(metadata=wire("string"))
    partition_ids: tuple[int, ...] = field(metadata=wire("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogValue:
    """The value: see `Transaction`. `transaction_partitions` is null in the state Empty.

    `next_producer_epoch` belongs to two-phase commit (KIP-939), which this broker does not serve.
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    producer_id: int = field(metadata=wire("int64"))
    producer_epoch: int = field(metadata=wire("int16"))
    transaction_timeout_ms: int = field(metadata=wire("int32"))
    transaction_status: int = field(metadata=wire("int8"))
    transaction_partitions: tuple[TransactionTopic, ...] | None
    transaction_last_update_timestamp_ms: int = field(metadata=wire("int64"))
    transaction_start_timestamp_ms: int = field(metadata=wire("int64"))
    previous_producer_id: int = field(metadata=wire("int64", tag=0), default=NO_PRODUCER_ID)
    next_producer_id: int = field(metadata=wire("int64", tag=1), default=NO_PRODUCER_ID)
    client_transaction_version: int = field(metadata=wire("int16", tag=2), default=0)
    next_producer_epoch: int = field(metadata=wire("int16", tag=3), default=NO_PRODUCER_EPOCH)


NEWEST: Final = 1

TRANSACTION: Final = RecordType(
    0,
    Schema(TransactionLogKey, flexible_since=NEWEST),
    Schema(TransactionLogValue, flexible_since=NEWEST),
    newest_value=NEWEST,
)

TYPES: Final = RecordTypes([TRANSACTION])


def encode(transaction: Transaction, transaction_version: int) -> CoordinatorRecord:
    """The record of a transaction, in the value's version for the level of `transaction.version`.

    A transaction that has something to say which version 0 lacks is written in version 1.
    """
    only_in_newest = transaction.client_version or transaction.next_producer_id != NO_PRODUCER_ID
    version = NEWEST if transaction_version or only_in_newest else 0
    key = TransactionLogKey(transactional_id=transaction.transactional_id)
    empty = transaction.state is State.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.value,
        transaction_partitions=None if empty else _topics(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=transaction.client_version,
    )
    return TRANSACTION.encode(key, value, version)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that removes a transactional id."""
    return TRANSACTION.tombstone(TransactionLogKey(transactional_id=transactional_id))


def decode(record: CoordinatorRecord) -> tuple[str, Transaction | None] | None:
    """A transactional id, and what the record says of it; None if it is removed.

    Returns None for a record of a newer type. Raises RecordError.
    """
    decoded = TYPES.decode(record)
    return None if decoded is None else (decoded.key.transactional_id, _transaction(decoded))


def _transaction(decoded: Decoded) -> Transaction | None:
    value: TransactionLogValue | None = decoded.value
    if value is None:
        return None
    try:
        state = State(value.transaction_status)
    except ValueError as error:
        raise RecordError(f"transaction status {value.transaction_status}") from error
    if state in (State.DEAD, State.PREPARE_EPOCH_FENCE):
        raise RecordError(f"a transaction in state {state.title}, which is never written")
    return Transaction(
        transactional_id=decoded.key.transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _topics(partitions: Iterable[TopicPartition]) -> tuple[TransactionTopic, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return tuple(
        TransactionTopic(topic=topic, partition_ids=tuple(ids)) for topic, ids in by_topic.items()
    )
