"""Record batches that hold values and nothing else: written, and read out of what a fetch gave.

Pure. `nodes.log.batch` knows the format whole; here is the part that a client under load repeats.
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
    """Records from the wanted offset on, the offset to go on from, and its last record's epoch."""

    records: list[Read]
    next_offset: int
    last_epoch: int


def encode(
    values: Sequence[bytes], *, timestamp_ms: int, producer_id: int, epoch: int, sequence: int
) -> bytes:
    """A batch of at least one value; -1 for what a producer without idempotence does not have."""
    return encode_batch(
        [Record(value=value) for value in values],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def decode(data: bytes, *, offset: int, epoch: int) -> Fetched:
    """What a fetch from `offset` on gave, after a record of `epoch` (-1: not known).

    It ends before a batch that is damaged: the next fetch begins with that one. Raises CorruptBatch
    where that is the first, or is compressed.
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
