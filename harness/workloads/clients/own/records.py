"""Writes record batches of keys and values, and reads the batches of a fetch. Pure.

A reader of committed records leaves out the batches of aborted transactions (KIP-98).

`nodes.log.batch` implements the whole format; here is the part that a client under load repeats.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from nodes.log.batch import (
    BatchHeader,
    Record,
    check_crc,
    decode_records,
    encode_batch,
    iter_batches,
)
from nodes.log.errors import CorruptBatch

ABORT: Final = 0
"""The type of an abort marker, in the last two bytes of its key."""


class Read(NamedTuple):
    """One record; `leader_epoch` is its batch's."""

    offset: int
    leader_epoch: int
    value: bytes | None
    key: bytes | None = None


class Fetched(NamedTuple):
    """Records from the wanted offset on, the offset to go on from, and the last record's epoch."""

    records: list[Read]
    next_offset: int
    last_epoch: int


def encode(
    values: Sequence[tuple[int, bytes | None, bytes | None]],
    *,
    producer_id: int,
    epoch: int,
    sequence: int,
) -> bytes:
    """Return a batch of at least one record: its timestamp (milliseconds since 1970), its
    value, and its key.

    A producer without idempotence gives -1 for the ids.
    """
    return encode_batch(
        [Record(timestamp=at_ms, value=value, key=key) for at_ms, value, key in values],
        timestamp_ms=values[0][0],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


class Aborted:
    """The aborted transactions of one fetch: producer id and first offset of each."""

    def __init__(self, transactions: Iterable[tuple[int, int]] = ()) -> None:
        self._begins = [(first, producer) for producer, first in transactions]
        heapq.heapify(self._begins)
        self._open: set[int] = set()

    def hides(self, data: bytes, at: int, header: BatchHeader) -> bool:
        """Return whether a batch has no record for a reader of committed records. The batches of a
        fetch must be given in order, all of them."""
        while self._begins and self._begins[0][0] <= header.last_offset:
            self._open.add(heapq.heappop(self._begins)[1])
        if header.is_control:
            markers = decode_records(data, at)  # none if compaction removed it
            if markers and _is_abort(markers[0]):
                self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


def _is_abort(marker: Record) -> bool:
    return int.from_bytes((marker.key or b"")[2:4], "big") == ABORT


def decode(
    data: bytes, *, offset: int, epoch: int, aborted: Iterable[tuple[int, int]] = ()
) -> Fetched:
    """Return the records of a fetch from `offset` on, after a record of `epoch` (-1: unknown).

    `aborted` has producer id and first offset of the transactions whose records are left out.
    The records end before a damaged batch, with which the next fetch begins. Raises CorruptBatch
    when the first batch is damaged or compressed.
    """
    records: list[Read] = []
    position, last_epoch = offset, epoch
    filtered = Aborted(aborted)
    try:
        for at, header in iter_batches(data):
            check_crc(data, at, header)
            hidden = filtered.hides(data, at, header)
            if header.next_offset <= position:
                continue
            if not hidden:
                records += [
                    Read(record.offset, header.partition_leader_epoch, record.value, record.key)
                    for record in decode_records(data, at)
                    if record.offset >= position
                ]
            position, last_epoch = header.next_offset, header.partition_leader_epoch
    except CorruptBatch:
        if position == offset:
            raise
    return Fetched(records, position, last_epoch)
