"""What administrators see of transactions (KIP-664, KIP-994, KIP-1152)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.coordinators.patterns.matching import Pattern
from nodes.coordinators.transactions.state import BY_TITLE, State, Transaction

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What ListTransactions asks for; an empty set or a negative duration asks for all."""

    states: frozenset[State]
    producer_ids: frozenset[int]
    duration_ms: int = -1
    """Only transactions that have been open for longer."""
    any_state: bool = False
    """No state was named: all are asked for. With names that do not exist, none is."""
    pattern: Pattern | None = None
    """Only transactional ids that match it as a whole (KIP-1152)."""


def read_filter(
    state_names: Iterable[str],
    producer_ids: Iterable[int],
    duration_ms: int,
    pattern: str | None = None,
) -> tuple[Filter, list[str]]:
    """The filter of a request, and the names of states that do not exist. Raises PatternError."""
    names = list(state_names)
    wanted = Filter(
        states=frozenset(BY_TITLE[name] for name in names if name in BY_TITLE),
        producer_ids=frozenset(producer_ids),
        duration_ms=duration_ms,
        any_state=not names,
        pattern=Pattern(pattern, any_text=True) if pattern else None,
    )
    return wanted, [name for name in names if name not in BY_TITLE]


def listing(transactions: Iterable[Transaction], wanted: Filter, now_ms: int) -> list[Row]:
    """The rows of ListTransactions, by transactional id. Raises PatternError: it costs too much."""
    found = (each for each in transactions if _matches(each, wanted, now_ms))
    return [
        {
            "transactional_id": each.transactional_id,
            "producer_id": each.producer_id,
            "transaction_state": each.state.title,
        }
        for each in sorted(found, key=lambda each: each.transactional_id)
    ]


def _matches(transaction: Transaction, wanted: Filter, now_ms: int) -> bool:
    if wanted.producer_ids and transaction.producer_id not in wanted.producer_ids:
        return False
    if not wanted.any_state and transaction.state not in wanted.states:
        return False
    if wanted.duration_ms >= 0 and now_ms - transaction.start_ms <= wanted.duration_ms:
        return False
    return wanted.pattern is None or wanted.pattern.matches(transaction.transactional_id)


def describe(transactional_id: str, transaction: Transaction | None) -> Row:
    """One entry of DescribeTransactions."""
    if transaction is None:
        known = ErrorCode.transactional_id_not_found if transactional_id else None
        error = known or ErrorCode.invalid_request
        return {"error_code": error, "transactional_id": transactional_id}
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return {
        "error_code": ErrorCode.none,
        "transactional_id": transactional_id,
        "transaction_state": transaction.state.title,
        "transaction_timeout_ms": transaction.timeout_ms,
        "transaction_start_time_ms": transaction.start_ms,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.epoch,
        "topics": [
            {"topic": topic, "partitions": partitions} for topic, partitions in topics.items()
        ],
    }
