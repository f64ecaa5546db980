"""Loading of a coordinator: a machine replays the whole log of its partition.

The log is read in slices, and other work is done between two slices.
"""

import asyncio
from typing import Final

from nodes.coordinators.machine import Machine, Position, ProducerStamp
from nodes.coordinators.records import CoordinatorRecord, RecordError
from nodes.ids import NO_OFFSET, Offset
from nodes.log.batch import BatchHeader, iter_batches
from nodes.log.key_values import read_key_values
from nodes.log.log import Log
from nodes.log.transactions.markers import marker_in

SLICE_BYTES: Final = 64 << 10
"""Read and replayed without a pause: about ten milliseconds."""


async def load(machine: Machine, log: Log) -> Offset:
    """Let `machine` replay all records of `log`; return the end of the log.

    The caller cancels it when the broker is the leader no more. Nothing else runs between the last
    replay and the return. Raises RecordError, LogError, OSError.
    """
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, SLICE_BYTES, log.end_offset)
        if not data:
            raise RecordError(f"there is nothing at offset {offset}")
        offset = replay(machine, data)
        if offset < log.end_offset:
            await asyncio.sleep(0)
    return offset


def replay(machine: Machine, data: bytes) -> Offset:
    """Let `machine` replay at least one batch, records and markers; return the next offset.

    Raises RecordError, CorruptBatch.
    """
    next_offset = NO_OFFSET
    for at, header in iter_batches(data):
        if header.is_control:
            _end_transaction(machine, data, at, header)
        else:
            _replay(machine, data, at, header)
        next_offset = header.next_offset
    return next_offset


def _replay(machine: Machine, data: bytes, at: int, header: BatchHeader) -> None:
    producer = None
    if header.is_transactional:
        producer = ProducerStamp(header.producer_id, header.producer_epoch)
    base = header.base_offset
    for delta, stamp, key, value in read_key_values(data, at, header):
        if key is not None:
            position = Position(Offset(base + delta), header.record_timestamp(stamp), producer)
            machine.replay(CoordinatorRecord(key, value), position)


def _end_transaction(machine: Machine, data: bytes, at: int, header: BatchHeader) -> None:
    marker = marker_in(data, at)
    if marker is not None:
        machine.end_transaction(
            ProducerStamp(marker.producer_id, marker.producer_epoch),
            Position(header.base_offset, header.max_timestamp, None),
            commit=marker.committed,
        )
