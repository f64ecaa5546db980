"""What a request does to a transactional id: the next Transaction, or the error for the client.

The rules are those of Kafka 4.2's TransactionCoordinator (KIP-98, KIP-360, KIP-890). A request that
was done before is no error: `EndDecision.retry` and the retry in `initialize` answer it again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import ProducerStamp
from nodes.coordinators.transactions.state import (
    EPOCH_BUMP_SINCE,
    LARGEST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    PREPARED,
    State,
    Transaction,
    change,
    is_exhausted,
    prepare_end,
    prepare_fence,
)
from nodes.ids import TopicPartition

NewId = Callable[[], int | None]
"""Takes an unused producer id; None if the broker has none at the moment."""

NO_IDS: Final = ErrorCode.coordinator_load_in_progress
"""The client tries again; meanwhile the broker gets new producer ids. Kafka's error."""


def create(
    transactional_id: str, timeout_ms: int, now_ms: int, new_id: NewId
) -> Transaction | None:
    """A transactional id that was not known; `initialize` gives it epoch 0. None without an id."""
    producer_id = new_id()
    if producer_id is None:
        return None
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
    )


def initialize(
    transaction: Transaction,
    expected: ProducerStamp | None,
    timeout_ms: int,
    now_ms: int,
    *,
    transaction_version: int,
    new_id: NewId,
) -> Transaction | ErrorCode:
    """InitProducerId. `expected` is who the producer says it is: to go on after an error (KIP-360).

    A Transaction in the state Empty has the new identity. One in the state PrepareAbort means that
    the open transaction is aborted first, and the producer has to ask again.
    """
    if transaction.state in PREPARED:
        return ErrorCode.concurrent_transactions
    if expected is not None and not _may_be(transaction, expected):
        return ErrorCode.producer_fenced
    if transaction.state is State.ONGOING:
        return fence(transaction, now_ms, transaction_version=transaction_version, new_id=new_id)
    fresh = transaction.epoch == NO_PRODUCER_EPOCH
    producer_id, epoch = transaction.producer_id, transaction.epoch + 1
    last_epoch = NO_PRODUCER_EPOCH if expected is None else transaction.epoch
    if expected is not None and not fresh and expected.epoch != transaction.epoch:
        if expected.epoch != transaction.last_epoch:
            return ErrorCode.producer_fenced
        epoch, last_epoch = transaction.epoch, transaction.last_epoch  # a retry
    elif transaction.exhausted:
        found = new_id()
        if found is None:
            return NO_IDS
        producer_id, epoch = found, 0
    return change(
        transaction,
        State.EMPTY,
        now_ms,
        producer_id=producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
    )


def _may_be(transaction: Transaction, expected: ProducerStamp) -> bool:
    """Whether `expected` may be the last producer; its epoch is compared later.

    The id before the current one may be, with its last epoch: that producer got a new id, and may
    not have heard of it.
    """
    return (
        transaction.epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
        or (
            expected.producer_id == transaction.previous_producer_id
            and is_exhausted(expected.epoch)
        )
    )


def fence(
    transaction: Transaction, now_ms: int, *, transaction_version: int, new_id: NewId
) -> Transaction | ErrorCode:
    """Abort the open transaction, and fence its producer."""
    next_id: int | None = NO_PRODUCER_ID
    if transaction_version >= EPOCH_BUMP_SINCE and transaction.exhausted:
        next_id = new_id()
    if next_id is None:
        return NO_IDS
    return prepare_fence(
        transaction, now_ms, transaction_version=transaction_version, next_producer_id=next_id
    )


def check_addition(transaction: Transaction | None, producer: ProducerStamp) -> ErrorCode:
    """Whether the producer may add partitions.

    While a transaction is being ended, nobody may: the producer may have its next id already, and
    must wait instead of being fenced (KAFKA-18660, KAFKA-18575).
    """
    if transaction is None:
        return ErrorCode.invalid_producer_id_mapping
    if transaction.state in PREPARED:
        return ErrorCode.concurrent_transactions
    return _check_producer(transaction, producer)


def verify(
    transaction: Transaction | None, producer: ProducerStamp, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Whether each partition is in the producer's open transaction (KIP-890, part 1)."""
    if transaction is None:
        return dict.fromkeys(partitions, ErrorCode.invalid_producer_id_mapping)
    error = _check_producer(transaction, producer)
    if error is ErrorCode.none and transaction.state in PREPARED:
        error = ErrorCode.concurrent_transactions
    if error is not ErrorCode.none:
        return dict.fromkeys(partitions, error)
    return {
        each: ErrorCode.none if each in transaction.partitions else ErrorCode.transaction_abortable
        for each in partitions
    }


def _check_producer(transaction: Transaction, producer: ProducerStamp) -> ErrorCode:
    if transaction.producer_id != producer.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if transaction.epoch != producer.epoch:
        return ErrorCode.producer_fenced
    return ErrorCode.none


@dataclass(frozen=True, slots=True)
class EndDecision:
    """`next` is written if it is set; otherwise `error` is the answer.

    `retry`: the end was decided by an earlier request, and the answer is the same.
    """

    error: ErrorCode = ErrorCode.none
    next: Transaction | None = None
    retry: bool = False


def end(
    transaction: Transaction | None,
    producer: ProducerStamp,
    now_ms: int,
    *,
    commit: bool,
    client_version: int,
    new_id: NewId,
) -> EndDecision:
    """EndTxn of a client."""
    if transaction is None:
        return EndDecision(ErrorCode.invalid_producer_id_mapping)
    if client_version < EPOCH_BUMP_SINCE:
        return _end_in_one_epoch(transaction, producer, now_ms, commit=commit)
    return _end_with_epoch_bump(transaction, producer, now_ms, commit=commit, new_id=new_id)


def _end_in_one_epoch(
    transaction: Transaction, producer: ProducerStamp, now_ms: int, *, commit: bool
) -> EndDecision:
    """transaction.version 0 and 1: every transaction of a producer has the same epoch.

    So a late EndTxn cannot be told from one of the next transaction (KAFKA-17754).
    """
    error = _check_producer(transaction, producer)
    if error is not ErrorCode.none:
        return EndDecision(error)
    if transaction.state is State.ONGOING:
        return EndDecision(next=prepare_end(transaction, now_ms, commit=commit, client_version=0))
    return _already_ended(transaction.state, commit=commit)


def _end_with_epoch_bump(
    transaction: Transaction,
    producer: ProducerStamp,
    now_ms: int,
    *,
    commit: bool,
    new_id: NewId,
) -> EndDecision:
    """From transaction.version 2 on, a request with the epoch before the current one is a retry.

    With the current epoch it is about a transaction that no partition was added to: it may be
    aborted, which the client does after an error that it cannot judge. While a transaction is being
    ended, everybody waits, as in `check_addition`.
    """
    state, (producer_id, epoch) = transaction.state, producer
    if state in PREPARED:
        return EndDecision(ErrorCode.concurrent_transactions)
    overflowed = (
        transaction.previous_producer_id == producer_id
        and epoch == LARGEST_EPOCH - 1
        and transaction.epoch == 0
    )
    if transaction.producer_id != producer_id and not overflowed:
        return EndDecision(ErrorCode.invalid_producer_id_mapping)
    retry = overflowed or transaction.epoch == epoch + 1
    if retry and state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        return _already_ended(state, commit=commit)
    if transaction.epoch != epoch:
        return EndDecision(ErrorCode.producer_fenced)
    if commit and state is not State.ONGOING:
        return EndDecision(ErrorCode.invalid_txn_state)
    next_id: int | None = new_id() if transaction.exhausted else NO_PRODUCER_ID
    if next_id is None:
        return EndDecision(NO_IDS)
    prepared = prepare_end(
        transaction,
        now_ms,
        commit=commit,
        client_version=EPOCH_BUMP_SINCE,
        next_producer_id=next_id,
    )
    return EndDecision(next=prepared)


def _already_ended(state: State, *, commit: bool) -> EndDecision:
    """The answer to a request about a transaction that was ended."""
    if state in PREPARED:
        return EndDecision(ErrorCode.concurrent_transactions)
    if state is not (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
        return EndDecision(ErrorCode.invalid_txn_state)
    return EndDecision(retry=True)


def with_last_epoch(transaction: Transaction, hint: Transaction | None) -> Transaction:
    """The transaction of a record, with the `last_epoch` of the decision that the record is of."""
    if hint is None or _identity(hint) != _identity(transaction):
        return transaction
    return replace(transaction, last_epoch=hint.last_epoch)


def _identity(transaction: Transaction) -> tuple[int, int, State, int]:
    return transaction.producer_id, transaction.epoch, transaction.state, transaction.updated_ms
