"""What the coordinator knows of one transactional id, and how it changes: Kafka's state machine.

A Transaction is a value. Each function here makes the next one, or an error that the client gets.
`coordinator` writes it to the log, and only then is it the state.

An epoch belongs to one producer. InitProducerId raises it, so a producer with an older epoch is
fenced. With transaction.version 2 the end of a transaction raises it too (KIP-890), so that no late
request of one transaction reaches the next. The largest epoch is never given to a producer: it is
kept to fence the last one. Then a new producer id follows, with epoch 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from nodes.ids import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
LARGEST_EPOCH: Final = 2**15 - 1
EPOCH_BUMP_SINCE: Final = 2
"""The level of transaction.version from which the end of a transaction raises the epoch."""


class State(IntEnum):
    """A transaction's state, with Kafka's number."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Kafka's name, for administrative answers: PrepareCommit."""
        return self.name.title().replace("_", "")


BY_TITLE: Final = {state.title: state for state in State}

RESTING: Final = frozenset((State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
"""No transaction is open, and no marker is missing."""
PREPARED: Final = frozenset((State.PREPARE_COMMIT, State.PREPARE_ABORT))
"""The end is decided, but not every partition has its marker."""

PREVIOUS_STATES: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: RESTING,
    State.ONGOING: RESTING | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset((State.ONGOING,)),
    # From a resting state: transaction.version 2 lets a client abort without a partition.
    State.PREPARE_ABORT: RESTING | {State.ONGOING},
    State.COMPLETE_COMMIT: frozenset((State.PREPARE_COMMIT,)),
    State.COMPLETE_ABORT: frozenset((State.PREPARE_ABORT,)),
}
"""From which states each state is reached. Dead and PrepareEpochFence are never written: an expired
id is removed, and fencing is one step with the abort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What is remembered of a transactional id. Times are wall-clock milliseconds."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change of state."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id that follows when a transaction with an exhausted epoch is complete."""
    epoch: int = NO_PRODUCER_EPOCH
    last_epoch: int = field(default=NO_PRODUCER_EPOCH, compare=False)
    """The epoch before this one, if the same producer had it: a retry may still name it.

    It is not in the record, as in Kafka 4.2. So a retry that meets a new coordinator is fenced
    (KAFKA-20357).
    """
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    updated_ms: int
    client_version: int = 0
    """The level of transaction.version by which the client made the last change."""

    @property
    def exhausted(self) -> bool:
        """No further epoch of this producer id may be given to a producer."""
        return is_exhausted(self.epoch)


def is_exhausted(epoch: int) -> bool:
    """Whether a producer with `epoch` has the last epoch that producers get."""
    return epoch >= LARGEST_EPOCH - 1


def change(transaction: Transaction, state: State, now_ms: int, **values: object) -> Transaction:
    """The transaction in the next `state`.

    Raises ValueError for a step that does not exist: that would be a bug here, not of a client.
    """
    if transaction.state not in PREVIOUS_STATES[state]:
        raise ValueError(f"{transaction} cannot become {state.title}")
    return replace(
        transaction,
        state=state,
        previous_producer_id=transaction.producer_id,
        updated_ms=now_ms,
        **values,  # type: ignore[arg-type]
    )


def add_partitions(
    transaction: Transaction,
    partitions: frozenset[TopicPartition],
    now_ms: int,
    *,
    client_version: int,
) -> Transaction:
    """Begin the transaction, or add partitions to it."""
    begins = transaction.state is not State.ONGOING
    return change(
        transaction,
        State.ONGOING,
        now_ms,
        partitions=transaction.partitions | partitions,
        start_ms=now_ms if begins else transaction.start_ms,
        client_version=client_version,
    )


def prepare_end(
    transaction: Transaction,
    now_ms: int,
    *,
    commit: bool,
    client_version: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """Decide the end that the producer asks for. The markers follow.

    From transaction.version 2 on, the epoch is raised, and an exhausted one needs
    `next_producer_id`.
    """
    raised = client_version >= EPOCH_BUMP_SINCE
    return change(
        transaction,
        State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
        now_ms,
        epoch=_raised(transaction.epoch) if raised else transaction.epoch,
        last_epoch=transaction.epoch if raised else transaction.last_epoch,
        start_ms=transaction.start_ms if transaction.state is State.ONGOING else now_ms,
        client_version=client_version,
        next_producer_id=next_producer_id,
    )


def prepare_fence(
    transaction: Transaction,
    now_ms: int,
    *,
    transaction_version: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """Abort without the producer: its epoch is raised, once, so that it cannot go on.

    That holds in every level (KAFKA-6119). In level 2 the abort itself raises it (KAFKA-19367), and
    an exhausted epoch needs `next_producer_id` there (KAFKA-20090).
    """
    if transaction_version >= EPOCH_BUMP_SINCE:
        return prepare_end(
            transaction,
            now_ms,
            commit=False,
            client_version=transaction_version,
            next_producer_id=next_producer_id,
        )
    return change(
        transaction,
        State.PREPARE_ABORT,
        now_ms,
        epoch=_raised(transaction.epoch),
        last_epoch=NO_PRODUCER_EPOCH,
        client_version=0,
        next_producer_id=NO_PRODUCER_ID,
    )


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """Every marker is written."""
    commit = transaction.state is State.PREPARE_COMMIT
    moves = transaction.next_producer_id != NO_PRODUCER_ID
    return change(
        transaction,
        State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT,
        now_ms,
        producer_id=transaction.next_producer_id if moves else transaction.producer_id,
        epoch=0 if moves else transaction.epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )


def _raised(epoch: int) -> int:
    return min(epoch + 1, LARGEST_EPOCH)
