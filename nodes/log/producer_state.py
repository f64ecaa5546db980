"""The state of a log's idempotent producers (KIP-98).

For each producer id: its newest epoch and its last five batches, the number that a client may have
in flight. A retry of one of these batches is a duplicate, and gets the offset of the first append.
Any other batch must continue the sequence.

Guarantees: the state is a function of the log's batch headers alone (except that long idle
producers are forgotten). So it can be rebuilt after a restart or a truncation, and a new leader has
the same state as the old one. Pure. Producer ids, transactions and snapshot files
(`nodes.log.producer_snapshots`) are handled elsewhere.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from nodes.ids import Offset
from nodes.log.batch import MAX_SEQUENCE, BatchHeader
from nodes.log.errors import InvalidProducerEpoch, OutOfOrderSequence, UnknownProducer

REMEMBERED_BATCHES = 5
SNAPSHOT_EVERY_BATCHES = 1024
FORGOTTEN_KEPT = 1000
SNAPSHOTS_KEPT = 16


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
    """Largest timestamp of its last batch, wall-clock milliseconds."""


class Producers:
    """The producers of one log.

    Entries are immutable, so that a snapshot is one copy of a dictionary. The last few snapshots
    are kept; a truncation replays headers only from the newest snapshot below it.
    """

    def __init__(self) -> None:
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

    def restore(self, state: Iterable[tuple[int, Producer]]) -> None:
        """Start from the state of a snapshot; updates must continue at its offset."""
        self._by_id = dict(state)

    def items(self) -> tuple[tuple[int, Producer], ...]:
        """Every producer id and its state, in the order of first appearance."""
        return tuple(self._by_id.items())

    def forget_idle(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers whose last batch is older than `expiration_ms`; return how many."""
        idle = [
            producer_id
            for producer_id, producer in self._by_id.items()
            if now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self._by_id[producer_id]
        for producer_id in idle:
            self._forgotten[producer_id] = None
        for producer_id in list(self._forgotten)[:-FORGOTTEN_KEPT]:
            del self._forgotten[producer_id]
        return len(idle)

    def check(
        self, header: BatchHeader, whole_log: Callable[[BatchHeader], bool]
    ) -> ProducerBatch | None:
        """Check a client's batch before its append; return the batch that it repeats, or None.

        `whole_log`: no producer can have been forgotten. Then an unknown producer has written
        nothing, and must begin with sequence 0. Otherwise its state may have been removed with old
        segments or by expiration, and any sequence is accepted (KIP-360).
        Raises InvalidProducerEpoch, OutOfOrderSequence, UnknownProducer.
        """
        known = self._by_id.get(header.producer_id)
        if known is None:
            forgotten = header.producer_id in self._forgotten
            if header.base_sequence > 0 and not forgotten and whole_log(header):
                raise UnknownProducer(
                    f"producer {header.producer_id} begins with sequence {header.base_sequence}"
                )
            return None
        if header.producer_epoch < known.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} in epoch {header.producer_epoch} was fenced "
                f"by epoch {known.epoch}"
            )
        if header.is_control or header.base_sequence < 0:
            return None
        if header.producer_epoch > known.epoch:
            expected = 0
        else:
            last_sequence = header.last_sequence
            for batch in known.batches:
                if (
                    batch.first_sequence == header.base_sequence
                    and batch.last_sequence == last_sequence
                ):
                    return batch
            last = known.batches[-1].last_sequence if known.batches else -1
            expected = (last + 1) & MAX_SEQUENCE
        if header.base_sequence != expected:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} epoch {header.producer_epoch}: sequence "
                f"{header.base_sequence} instead of {expected}"
            )
        return None

    def update(self, header: BatchHeader, base_offset: Offset) -> None:
        """Add a batch that was appended at `base_offset`."""
        self._since_snapshot += 1
        if self._since_snapshot >= SNAPSHOT_EVERY_BATCHES:
            self._take_snapshot(base_offset)
        producer_id = header.producer_id
        if producer_id < 0:
            return
        known = self._by_id.get(producer_id)
        batches: tuple[ProducerBatch, ...] = ()
        if known is not None and known.epoch == header.producer_epoch:
            batches = known.batches
        if not header.is_control and header.base_sequence >= 0:
            new = ProducerBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                Offset(base_offset + header.last_offset_delta),
            )
            batches = (*batches[1 - REMEMBERED_BATCHES :], new)
        self._by_id[producer_id] = Producer(header.producer_epoch, batches, header.max_timestamp)

    def rewind(self, offset: Offset) -> Offset | None:
        """Return to the newest kept snapshot at or below `offset`; return that snapshot's offset.

        The caller then calls `update` for every batch from there to `offset`. Without such a
        snapshot: None, and the state of an empty log.
        """
        while self._snapshots and self._snapshots[-1][0] > offset:
            self._snapshots.pop()
        self._since_snapshot = 0
        if not self._snapshots:
            self._by_id = {}
            return None
        at, state = self._snapshots[-1]
        self._by_id = dict(state)
        return at

    def _take_snapshot(self, offset: Offset) -> None:
        """Keep the state before the batch at `offset`."""
        self._since_snapshot = 0
        self._snapshots.append((offset, dict(self._by_id)))
        del self._snapshots[:-SNAPSHOTS_KEPT]
