"""The rows of kafka-transactions (Kafka 4.2), and the same facts for --json. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from harness.admin.tool_text import listed
from harness.admin.transactions.descriptions import (
    OpenTransaction,
    Transaction,
    TransactionListing,
)

_MINUTE_MS: Final = 60_000


def listing_rows(listings: Iterable[TransactionListing]) -> list[list[str]]:
    """Return the header and rows of `list`."""
    return [
        ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"],
        *(
            [each.transactional_id, str(each.coordinator), str(each.producer_id), each.state]
            for each in listings
        ),
    ]


def listing_data(each: TransactionListing) -> dict[str, Any]:
    """Return a listed transactional id for --json."""
    return {
        "transactional_id": each.transactional_id,
        "coordinator": each.coordinator,
        "producer_id": each.producer_id,
        "state": each.state,
    }


def transaction_rows(transactions: Iterable[Transaction], now_ms: int) -> list[list[str]]:
    """Return the header and rows of `describe`."""
    header = (
        "CoordinatorId TransactionalId ProducerId ProducerEpoch TransactionState "
        "TransactionTimeoutMs CurrentTransactionStartTimeMs TransactionDurationMs TopicPartitions"
    )
    return [
        header.split(),
        *(
            [
                str(each.coordinator.node_id),
                each.transactional_id,
                str(each.producer_id),
                str(each.producer_epoch),
                each.state,
                str(each.timeout_ms),
                str(each.start_ms),
                "None" if each.start_ms is None else str(now_ms - each.start_ms),
                listed(sorted(each.partitions)),
            ]
            for each in transactions
        ),
    ]


def transaction_data(each: Transaction, now_ms: int) -> dict[str, Any]:
    """Return a transaction for --json."""
    return {
        "transactional_id": each.transactional_id,
        "coordinator": each.coordinator.node_id,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": each.state,
        "timeout_ms": each.timeout_ms,
        "start_ms": each.start_ms,
        "duration_ms": None if each.start_ms is None else now_ms - each.start_ms,
        "partitions": list(map(str, sorted(each.partitions))),
    }


def hanging_rows(found: Sequence[OpenTransaction], now_ms: int) -> list[list[str]]:
    """Return the header and rows of `find-hanging`."""
    header = (
        "Topic Partition ProducerId ProducerEpoch CoordinatorEpoch StartOffset LastTimestamp "
        "Duration(min)"
    )
    return [
        header.split(),
        *(
            [
                each.partition.topic,
                str(each.partition.partition),
                str(each.producer.producer_id),
                str(each.producer.epoch),
                str(each.producer.coordinator_epoch),
                str(each.producer.transaction_start),
                str(each.producer.last_timestamp_ms),
                str((now_ms - each.producer.last_timestamp_ms) // _MINUTE_MS),
            ]
            for each in found
        ),
    ]


def hanging_data(each: OpenTransaction, now_ms: int) -> dict[str, Any]:
    """Return a hanging transaction for --json."""
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "producer_id": each.producer.producer_id,
        "producer_epoch": each.producer.epoch,
        "coordinator_epoch": each.producer.coordinator_epoch,
        "start_offset": each.producer.transaction_start,
        "last_timestamp_ms": each.producer.last_timestamp_ms,
        "since_last_record_ms": now_ms - each.producer.last_timestamp_ms,
    }
