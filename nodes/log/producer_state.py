"""The state of a log's idempotent and transactional producers (KIP-98, KIP-890).

For each producer id: its newest epoch and its last five batches, the number that a client may have
in flight. A retry of one of these batches is a duplicate, and gets the offset of the first append.
Any other batch must continue the sequence. A transaction is open from its first batch to its
marker; meanwhile the producer may only write to the transaction. The first batch needs a
verification (`nodes.log.transactions.verification`).

Guarantees: the state is a function of the log's batch headers and markers alone (except that long
idle producers are forgotten, unless a transaction of theirs is open). So it can be rebuilt after a
restart or a truncation, and a new leader has the same state as the old one. Pure. Producer ids and
files (`nodes.log.producer_state_manager`) are handled elsewhere.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from nodes.ids import NO_OFFSET, Offset
from nodes.log.batch import CONTROL_BIT, MAX_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader
from nodes.log.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    UnknownProducer,
)
from nodes.log.transactions.aborted_index import AbortedTransaction
from nodes.log.transactions.markers import NO_COORDINATOR, Marker
from nodes.log.transactions.unstable import UnstableTransactions
from nodes.log.transactions.verification import VerificationGuard, Verifications

REMEMBERED_BATCHES = 5
SNAPSHOT_EVERY_BATCHES = 1024
FORGOTTEN_KEPT = 1000
SNAPSHOTS_KEPT = 16

EPOCH_BUMPED_SINCE = 2
"""From this transaction version on, a marker has the epoch after that of its transaction."""


class ProducerBatch(NamedTuple):
    """One appended batch of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset


class Producer(NamedTuple):
    """A producer id's newest epoch and its last batches in that epoch, oldest first."""

    epoch: int
    batches: tuple[ProducerBatch, ...]
    last_timestamp: int = -1
    """Largest timestamp of its last batch or marker, wall-clock milliseconds."""
    coordinator_epoch: int = NO_COORDINATOR
    """The epoch of the coordinator that wrote its last marker."""
    transaction_start: Offset = NO_OFFSET
    """The first offset of its open transaction; -1 if none is open."""


class Producers:
    """The producers of one log.

    Entries are immutable, so that a snapshot is one copy of a dictionary. The last few snapshots
    are kept; a truncation replays headers only from the newest snapshot below it.
    """

    def __init__(self) -> None:
        self.unstable = UnstableTransactions()
        self.verifications = Verifications()
        self._by_id: dict[int, Producer] = {}
        self._snapshots: list[tuple[Offset, dict[int, Producer]]] = []
        self._since_snapshot = 0
        self._forgotten: dict[int, None] = {}
        """The producers forgotten last: the wall clock may have jumped, so they may continue."""

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, producer_id: int) -> Producer | None:
        """The state of a producer id; None if unknown."""
        return self._by_id.get(producer_id)

    def ids(self) -> tuple[int, ...]:
        """Every producer id, in the order of first appearance."""
        return tuple(self._by_id)

    def restore(self, state: Iterable[tuple[int, Producer]], offset: Offset) -> None:
        """Start from the state of a snapshot; updates must continue at its offset."""
        self._by_id = dict(state)
        opened = [
            (producer.transaction_start, producer_id)
            for producer_id, producer in self._by_id.items()
            if producer.transaction_start >= 0
        ]
        self.unstable.restore(opened, offset)

    def items(self) -> tuple[tuple[int, Producer], ...]:
        """Every producer id and its state, in the order of first appearance."""
        return tuple(self._by_id.items())

    def forget_idle(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers whose last batch is older than `expiration_ms`; return how many.

        A producer with an open transaction is kept, because the marker has to find it.
        """
        self.verifications.forget_idle(now_ms, expiration_ms)
        idle = [
            producer_id
            for producer_id, producer in self._by_id.items()
            if now_ms - producer.last_timestamp >= expiration_ms and producer.transaction_start < 0
        ]
        for producer_id in idle:
            del self._by_id[producer_id]
        for producer_id in idle:
            self._forgotten[producer_id] = None
        for producer_id in list(self._forgotten)[:-FORGOTTEN_KEPT]:
            del self._forgotten[producer_id]
        return len(idle)

    def start_verification(
        self, header: BatchHeader, now_ms: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Return the guard for a transactional batch, before its append; None if the batch's
        transaction is open here, so that no verification is necessary.

        `now_ms` is wall-clock time. Raises InvalidProducerEpoch.
        """
        known = self._by_id.get(header.producer_id)
        if known is not None:
            if header.producer_epoch < known.epoch:
                raise _fenced(header, known)
            if known.transaction_start >= 0 and known.epoch == header.producer_epoch:
                return None
        return self.verifications.start(header, now_ms, supports_epoch_bump=supports_epoch_bump)

    def check(
        self,
        header: BatchHeader,
        whole_log: Callable[[BatchHeader], bool],
        guard: VerificationGuard | None = None,
    ) -> ProducerBatch | None:
        """Check a leader's batch before its append; return the batch that it repeats, or None.

        `whole_log`: no producer can have been forgotten. Then an unknown producer has written
        nothing, and must begin with sequence 0. Otherwise its state may have been removed with old
        segments or by expiration, and any sequence is accepted (KIP-360). `guard`: that of the
        batch's verification. Raises InvalidProducerEpoch, OutOfOrderSequence, UnknownProducer,
        InvalidTransactionState.
        """
        known = self._by_id.get(header.producer_id)
        sequence, transactional = header.base_sequence, header.attributes & TRANSACTIONAL_BIT
        if known is None:
            if transactional:
                self._check_verified(header, guard)
            if sequence > 0:
                self._check_begin(header, whole_log, guard)
            return None
        epoch = header.producer_epoch
        if epoch < known.epoch:
            raise _fenced(header, known)
        expected = 0
        if epoch == known.epoch and known.batches:
            last_sequence = header.last_sequence
            for batch in known.batches:
                if batch.first_sequence == sequence and batch.last_sequence == last_sequence:
                    return batch
            expected = (known.batches[-1].last_sequence + 1) & MAX_SEQUENCE
        if transactional and (known.transaction_start < 0 or epoch > known.epoch):
            self._check_verified(header, guard)
        if sequence != expected and sequence >= 0:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} epoch {epoch}: sequence {sequence} instead of "
                f"{expected}"
            )
        if known.transaction_start >= 0 and not transactional:
            raise InvalidTransactionState(
                f"producer {header.producer_id} has an open transaction, and wrote outside of it"
            )
        return None

    def _check_verified(self, header: BatchHeader, guard: VerificationGuard | None) -> None:
        """Check the first batch of a transaction."""
        if guard is None or self.verifications.get(header.producer_id) is not guard:
            raise InvalidTransactionState(
                f"no open transaction of producer {header.producer_id}, and none was verified"
            )
        if header.base_sequence > guard.lowest_sequence:
            raise OutOfOrderSequence(
                f"producer {header.producer_id}: sequence {header.base_sequence} before "
                f"{guard.lowest_sequence}"
            )

    def _check_begin(
        self,
        header: BatchHeader,
        whole_log: Callable[[BatchHeader], bool],
        guard: VerificationGuard | None,
    ) -> None:
        """Check the first known batch of a producer, which does not have sequence 0."""
        begins_at_zero = guard is not None and guard.supports_epoch_bump
        forgotten = header.producer_id in self._forgotten
        if begins_at_zero or (not forgotten and whole_log(header)):
            raise UnknownProducer(
                f"producer {header.producer_id} begins with sequence {header.base_sequence}"
            )

    def check_marker(self, marker: Marker, transaction_version: int) -> None:
        """Check a marker before its append. Raises InvalidProducerEpoch, CoordinatorFenced.

        From transaction version 2 on, a marker of the current epoch belongs to an earlier
        transaction (KAFKA-19446), except that a marker may be repeated when it ends nothing
        (KAFKA-19999).
        """
        known = self._by_id.get(marker.producer_id)
        if known is None:
            return
        repeated = marker.producer_epoch == known.epoch and known.transaction_start < 0
        fenced = known.epoch + 1 if transaction_version >= EPOCH_BUMPED_SINCE else known.epoch
        if marker.producer_epoch < fenced and not repeated:
            raise InvalidProducerEpoch(
                f"a marker of transaction version {transaction_version} with epoch "
                f"{marker.producer_epoch} of producer {marker.producer_id}, which is in epoch "
                f"{known.epoch}"
            )
        if marker.coordinator_epoch < known.coordinator_epoch:
            raise CoordinatorFenced(
                f"a marker of coordinator epoch {marker.coordinator_epoch} after one of "
                f"{known.coordinator_epoch}"
            )

    def update(self, header: BatchHeader, base_offset: Offset) -> None:
        """Add a batch that was appended at `base_offset`; a control batch without a marker too."""
        self._since_snapshot += 1
        if self._since_snapshot >= SNAPSHOT_EVERY_BATCHES:
            self._take_snapshot(base_offset)
        producer_id = header.producer_id
        if producer_id < 0 or header.attributes & CONTROL_BIT:
            return
        known = self._by_id.get(producer_id)
        batches: tuple[ProducerBatch, ...] = ()
        coordinator_epoch, start = NO_COORDINATOR, NO_OFFSET
        if known is not None:
            coordinator_epoch, start = known.coordinator_epoch, known.transaction_start
            if known.epoch == header.producer_epoch:
                batches = known.batches
        if header.base_sequence >= 0:
            new = ProducerBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                Offset(base_offset + header.last_offset_delta),
            )
            batches = (*batches[1 - REMEMBERED_BATCHES :], new)
        if header.attributes & TRANSACTIONAL_BIT:
            self.verifications.end(producer_id)
            if start < 0:
                start = base_offset
                self.unstable.begin(producer_id, start)
        self._by_id[producer_id] = Producer(
            header.producer_epoch, batches, header.max_timestamp, coordinator_epoch, start
        )

    def end_transaction(
        self, header: BatchHeader, base_offset: Offset, marker: Marker
    ) -> AbortedTransaction | None:
        """Add a marker that was appended at `base_offset`; return the transaction that it aborts.

        A marker may end nothing: the transaction wrote nothing here, or the marker is repeated.
        """
        self.update(header, base_offset)
        known = self._by_id.get(marker.producer_id)
        if marker.coordinator_epoch == NO_COORDINATOR and known is not None:
            if marker.producer_epoch < known.epoch:
                return None
            marker = marker._replace(coordinator_epoch=known.coordinator_epoch)
        self.verifications.marked(marker.producer_id, marker.producer_epoch)
        same = known is not None and known.epoch == marker.producer_epoch
        self._by_id[marker.producer_id] = Producer(
            marker.producer_epoch,
            known.batches if known is not None and same else (),
            header.max_timestamp,
            marker.coordinator_epoch,
        )
        if known is None or known.transaction_start < 0:
            return None
        first = known.transaction_start
        stable = self.unstable.end(first, base_offset)
        if marker.committed:
            return None
        return AbortedTransaction(marker.producer_id, first, base_offset, stable)

    def rewind(self, offset: Offset) -> Offset | None:
        """Return to the newest kept snapshot at or below `offset`; return that snapshot's offset.

        The caller then calls `update` for every batch from there to `offset`. Without such a
        snapshot: None, and the state of an empty log.
        """
        while self._snapshots and self._snapshots[-1][0] > offset:
            self._snapshots.pop()
        self._since_snapshot = 0
        if not self._snapshots:
            self.restore((), Offset(0))
            return None
        at, state = self._snapshots[-1]
        self.restore(state.items(), at)
        return at

    def clear(self) -> None:
        """Return to the state of an empty log."""
        self._snapshots.clear()
        self._forgotten.clear()
        self._since_snapshot = 0
        self.verifications.clear()
        self.restore((), Offset(0))

    def _take_snapshot(self, offset: Offset) -> None:
        """Keep the state before the batch at `offset`."""
        self._since_snapshot = 0
        self._snapshots.append((offset, dict(self._by_id)))
        del self._snapshots[:-SNAPSHOTS_KEPT]


def _fenced(header: BatchHeader, known: Producer) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"producer {header.producer_id} in epoch {header.producer_epoch} was fenced by epoch "
        f"{known.epoch}"
    )
