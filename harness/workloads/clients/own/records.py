"""Writes record batches that hold only values, and reads the batches of a fetch. Pure.

`nodes.log.batch` implements the whole format; here is the part that a client under load repeats.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nodes.log.batch import Record, check_crc, decode_records, encode_batch, iter_batches
from nodes.log.errors import CorruptBatch


class Read(NamedTuple):
    """One record; `leader_epoch` is its batch's."""

    offset: int
    leader_epoch: int
    value: bytes | None


class Fetched(NamedTuple):
    """Records from the wanted offset on, the offset to go on from, and the last record's epoch."""

    records: list[Read]
    next_offset: int
    last_epoch: int


def encode(
    values: Sequence[tuple[int, bytes]], *, producer_id: int, epoch: int, sequence: int
) -> bytes:
    """Return a batch of at least one record: its timestamp (milliseconds since 1970) and its value.

    A producer without idempotence gives -1 for the ids.
    """
    return encode_batch(
        [Record(timestamp=timestamp_ms, value=value) for timestamp_ms, value in values],
        timestamp_ms=values[0][0],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def decode(data: bytes, *, offset: int, epoch: int) -> Fetched:
    """Return the records of a fetch from `offset` on, after a record of `epoch` (-1: unknown).

    They end before a damaged batch, with which the next fetch begins. Raises CorruptBatch when the
    first batch is damaged or compressed.
    """
    records: list[Read] = []
    position, last_epoch = offset, epoch
    try:
        for at, header in iter_batches(data):
            check_crc(data, at, header)
            if header.next_offset <= position:
                continue
            if not header.is_control:
                records += [
                    Read(record.offset, header.partition_leader_epoch, record.value)
                    for record in decode_records(data, at)
                    if record.offset >= position
                ]
            position, last_epoch = header.next_offset, header.partition_leader_epoch
    except CorruptBatch:
        if position == offset:
            raise
    return Fetched(records, position, last_epoch)
