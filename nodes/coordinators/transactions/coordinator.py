"""The transaction coordinator of one partition of __transaction_state: a Machine.

A request decides by `decisions`, and its record is replayed as soon as it is appended. So the next
request sees the new state, although it may not be committed yet: it is answered later still, when
its own answer's high watermark is reached. A record that is never committed was never answered.

Markers are sent only for decisions that are committed: `pending_markers` takes the high watermark,
and the answer of `due_markers` waits for it. `markers_written` confirms them. The last confirmation
completes the transaction, once.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import Answer, Effects, Now, Position, ProducerStamp, Token
from nodes.coordinators.patterns.syntax import PatternError
from nodes.coordinators.records import CoordinatorRecord
from nodes.coordinators.transactions import decisions, queries, records
from nodes.coordinators.transactions.settings import TransactionSettings
from nodes.coordinators.transactions.state import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    RESTING,
    State,
    Transaction,
    add_partitions,
    complete,
)
from nodes.ids import Offset, TopicPartition

MOST_CHANGES: Final = 500
"""The transactions that one tick ends, so that its batch stays small; the others follow at once."""
LONGEST_ID_BYTES: Final = 2**15 - 1
"""The longest transactional id that fits into a record's key."""


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a transaction, for the leaders of these partitions."""

    transactional_id: str
    decided: Offset
    """Where the log has the decision: that tells transactions with equal epochs apart."""
    producer: ProducerStamp
    commit: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
    """The partitions without a confirmed marker; empty if none is left."""


@dataclass(slots=True)
class _Prepared:
    """A decision whose markers are on their way."""

    offset: Offset
    written: set[TopicPartition]


class TransactionCoordinator:
    """See the module.

    `transaction_version` tells the finalised level of that feature, `new_id` takes an unused
    producer id of the broker (None if there is none at the moment). `decided` is called with a
    transactional id when its transaction's end is decided, also while the log is loaded:
    `due_markers` has its markers. `completed` is called with a transactional id whose transaction
    is complete, or that has none.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        *,
        transaction_version: Callable[[], int],
        new_id: decisions.NewId,
        decided: Callable[[str], None] = lambda name: None,
        completed: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._settings = settings
        self._version = transaction_version
        self._new_id = new_id
        self._decided = decided
        self._completed = completed
        self.transactions: dict[str, Transaction] = {}
        """What is remembered, by transactional id."""
        self._prepared: dict[str, _Prepared] = {}
        self._open: dict[str, float | None] = {}
        """The open transactions, with the monotonic time at which each times out, once known."""
        self._hints: dict[str, Transaction] = {}
        """Transactions on their way into the log, with what their records lack."""
        self._abort_due_ms = 0.0
        self._expiration_due_ms = 0.0

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        """See Machine."""
        decoded = records.decode(record)
        if decoded is None:
            return
        name, transaction = decoded
        hint = self._hints.pop(name, None)
        self.transactions.pop(name, None)
        self._prepared.pop(name, None)
        deadline_ms = self._open.pop(name, None)
        if transaction is None:
            return
        self.transactions[name] = decisions.with_last_epoch(transaction, hint)
        if transaction.state in PREPARED:
            self._prepared[name] = _Prepared(position.offset, set())
            self._decided(name)
        elif transaction.state is State.ONGOING:
            self._open[name] = deadline_ms
        else:
            self._completed(name)

    def end_transaction(self, producer: ProducerStamp, position: Position, *, commit: bool) -> None:
        """See Machine. This log has no transactional records."""

    def loaded(self, now: Now) -> Effects:
        """See Machine."""
        self._abort_due_ms = now.ms + self._settings.abort_interval_ms
        self._expiration_due_ms = now.ms + self._settings.expiration_interval_ms
        return Effects()

    def deadline_ms(self) -> float | None:
        """See Machine."""
        if self._open:
            return min(self._abort_due_ms, self._expiration_due_ms)
        return self._expiration_due_ms if self.transactions else None

    def tick(self, now: Now) -> Effects:
        """Abort what timed out, and remove the ids that nobody has used for long.

        Each is looked for at its own interval, as in Kafka.
        """
        changes: list[CoordinatorRecord] = []
        if now.ms >= self._abort_due_ms:
            changes += [self._record(each) for each in self._timed_out(now, MOST_CHANGES)]
            if len(changes) < MOST_CHANGES:
                self._abort_due_ms = now.ms + self._settings.abort_interval_ms
        if now.ms >= self._expiration_due_ms:
            room = MOST_CHANGES - len(changes)
            expired = list(self._expired(now, room))
            changes += [records.tombstone(name) for name in expired]
            if len(expired) < room:
                self._expiration_due_ms = now.ms + self._settings.expiration_interval_ms
        return Effects(tuple(changes), separable=True)

    def abandoned(self, token: Token) -> None:
        """See Machine. No request waits for another."""

    def init_producer_id(
        self,
        token: Token,
        now: Now,
        *,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerStamp | None,
    ) -> Effects:
        """InitProducerId with a transactional id."""
        if not _is_valid(transactional_id) or (expected is not None and min(expected) < 0):
            return _answer(token, error_code=ErrorCode.invalid_request, **_NOBODY)
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            return _answer(token, error_code=ErrorCode.invalid_transaction_timeout, **_NOBODY)
        known = self.transactions.get(transactional_id)
        before = known or decisions.create(transactional_id, timeout_ms, now.wall_ms, self._new_id)
        if before is None:
            return _answer(token, error_code=decisions.NO_IDS, **_NOBODY)
        after = decisions.initialize(
            before,
            expected,
            timeout_ms,
            now.wall_ms,
            transaction_version=self._version(),
            new_id=self._new_id,
        )
        if isinstance(after, ErrorCode):
            return _answer(token, error_code=after, **_NOBODY)
        if after.state is State.PREPARE_ABORT:
            error = ErrorCode.concurrent_transactions
            return self._write(token, after, error_code=error, **_NOBODY)
        return self._write(
            token,
            after,
            error_code=ErrorCode.none,
            producer_id=after.producer_id,
            producer_epoch=after.epoch,
        )

    def add_partitions(
        self,
        token: Token,
        now: Now,
        *,
        transactional_id: str,
        producer: ProducerStamp,
        partitions: Iterable[TopicPartition],
        client_version: int,
    ) -> Effects:
        """AddPartitionsToTxn, and AddOffsetsToTxn for the partition of the group.

        The answer has one `error_code`, for all partitions.
        """
        if not _is_valid(transactional_id):
            return _answer(token, error_code=ErrorCode.invalid_request)
        transaction, added = self.transactions.get(transactional_id), frozenset(partitions)
        error = decisions.check_addition(transaction, producer)
        if transaction is None or error is not ErrorCode.none:
            return _answer(token, error_code=error)
        if added <= transaction.partitions:
            return _answer(token, error_code=ErrorCode.none)
        after = add_partitions(transaction, added, now.wall_ms, client_version=client_version)
        return self._write(token, after, error_code=ErrorCode.none)

    def verify_partitions(
        self,
        token: Token,
        now: Now,
        *,
        transactional_id: str,
        producer: ProducerStamp,
        partitions: Iterable[TopicPartition],
    ) -> Effects:
        """AddPartitionsToTxn that only asks. The answer has `errors`, by partition."""
        asked = frozenset(partitions)
        if not _is_valid(transactional_id):
            return _answer(token, errors=dict.fromkeys(asked, ErrorCode.invalid_request))
        transaction = self.transactions.get(transactional_id)
        return _answer(token, errors=decisions.verify(transaction, producer, asked))

    def end(
        self,
        token: Token,
        now: Now,
        *,
        transactional_id: str,
        producer: ProducerStamp,
        commit: bool,
        client_version: int,
    ) -> Effects:
        """EndTxn. The answer names the producer's identity for its next transaction."""
        if not _is_valid(transactional_id):
            return _answer(token, error_code=ErrorCode.invalid_request, **_NOBODY)
        transaction = self.transactions.get(transactional_id)
        decision = decisions.end(
            transaction,
            producer,
            now.wall_ms,
            commit=commit,
            client_version=client_version,
            new_id=self._new_id,
        )
        if decision.next is not None:
            following = complete(decision.next, now.wall_ms)
            return self._write(token, decision.next, **_identity(following))
        if decision.retry and transaction is not None:
            return _answer(token, **_identity(transaction))
        return _answer(token, error_code=decision.error, **_NOBODY)

    def pending_markers(self, committed: Offset) -> Iterator[Marker]:
        """The ends of transactions that are decided for good, below the high watermark `committed`.

        They are derived from the log alone, so a new coordinator goes on where the last one ended.
        """
        for name, prepared in self._prepared.items():
            if prepared.offset < committed:
                yield self._marker(self.transactions[name], prepared)

    def due_markers(self, token: Token, names: Iterable[str] | None = None) -> Effects:
        """The markers of these decisions, by default of all, as `markers`.

        When it is answered, the decisions are committed.
        """
        wanted = self._prepared if names is None else filter(self._prepared.__contains__, names)
        markers = (self._marker(self.transactions[n], self._prepared[n]) for n in wanted)
        return _answer(token, markers=tuple(markers))

    def lacks_marker(
        self, transactional_id: str, decided: Offset, partition: TopicPartition
    ) -> bool:
        """Whether this is still the decision of the transaction, and its marker not confirmed."""
        prepared = self._prepared.get(transactional_id)
        return (
            prepared is not None
            and prepared.offset == decided
            and partition not in prepared.written
        )

    def markers_written(
        self,
        now: Now,
        *,
        transactional_id: str,
        decided: Offset,
        partitions: Iterable[TopicPartition],
    ) -> Effects:
        """These partitions have their marker, or are deleted. The last ones complete it.

        A confirmation of another transaction has no effect: `decided` is that of the Marker.
        """
        prepared = self._prepared.get(transactional_id)
        if prepared is None or prepared.offset != decided:
            return Effects()
        transaction = self.transactions[transactional_id]
        prepared.written.update(partitions)
        if not transaction.partitions <= prepared.written:
            return Effects()
        return Effects((self._record(complete(transaction, now.wall_ms)),))

    def describe(self, token: Token, now: Now, *, transactional_id: str) -> Effects:
        """DescribeTransactions for one id; the answer is an entry of `transaction_states`."""
        transaction = self.transactions.get(transactional_id)
        return Effects(answers=((token, queries.describe(transactional_id, transaction)),))

    def listing(self, token: Token, now: Now, *, wanted: queries.Filter) -> Effects:
        """ListTransactions: the answer has the `transaction_states` of this partition."""
        try:
            rows = queries.listing(self.transactions.values(), wanted, now.wall_ms)
        except PatternError:
            return _answer(token, error_code=ErrorCode.invalid_regular_expression)
        return _answer(token, error_code=ErrorCode.none, transaction_states=rows)

    def _timed_out(self, now: Now, most: int) -> Iterator[Transaction]:
        version = self._version()
        found = 0
        for name in self._open:
            transaction = self.transactions[name]
            if found == most or self._deadline_ms(transaction, now) > now.ms:
                continue
            after = decisions.fence(
                transaction, now.wall_ms, transaction_version=version, new_id=self._new_id
            )
            if isinstance(after, Transaction):
                found += 1
                yield after

    def _deadline_ms(self, transaction: Transaction, now: Now) -> float:
        """When the transaction times out, in monotonic time.

        The wall clock says how much is left when the transaction is first seen. After that its
        jumps have no effect; so a transaction is never open much longer than its time-out.
        """
        known = self._open[transaction.transactional_id]
        if known is not None:
            return known
        left = transaction.start_ms + transaction.timeout_ms - now.wall_ms
        due = now.ms + min(max(left, 0), transaction.timeout_ms)
        self._open[transaction.transactional_id] = due
        return due

    def _expired(self, now: Now, most: int) -> Iterator[str]:
        oldest = now.wall_ms - self._settings.id_expiration_ms
        found = 0
        for name, transaction in self.transactions.items():
            if found == most:
                return
            if transaction.state in RESTING and transaction.updated_ms <= oldest:
                found += 1
                yield name

    def _marker(self, transaction: Transaction, prepared: _Prepared) -> Marker:
        return Marker(
            transaction.transactional_id,
            prepared.offset,
            ProducerStamp(transaction.producer_id, transaction.epoch),
            transaction.state is State.PREPARE_COMMIT,
            transaction.client_version,
            tuple(sorted(transaction.partitions - prepared.written)),
        )

    def _write(self, token: Token, transaction: Transaction, **answer: object) -> Effects:
        return Effects((self._record(transaction),), ((token, answer),))

    def _record(self, transaction: Transaction) -> CoordinatorRecord:
        self._hints[transaction.transactional_id] = transaction
        return records.encode(transaction, self._version())


_NOBODY: Final[Answer] = {"producer_id": NO_PRODUCER_ID, "producer_epoch": NO_PRODUCER_EPOCH}


def _identity(transaction: Transaction) -> Answer:
    return {
        "error_code": ErrorCode.none,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.epoch,
    }


def _answer(token: Token, **fields: object) -> Effects:
    return Effects(answers=((token, fields),))


def _is_valid(transactional_id: str) -> bool:
    return 0 < len(transactional_id.encode()) <= LONGEST_ID_BYTES
