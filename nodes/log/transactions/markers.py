"""Transaction markers: the control records that end a transaction in one partition. Pure.

The transaction coordinator decides, and writes one marker to each partition of the transaction
(KIP-98). A marker is a batch with the attributes "control" and "transactional" and one record:

    key    i16 version 0 | i16 type: 0 aborts, 1 commits
    value  i16 version 0 | i32 epoch of the coordinator

The log cleaner may remove the record of a marker and leave its batch, as long as the producer is
remembered. The transaction has no records left then, wherever the batch was cleaned.

The batch's producer id and epoch are those of the transaction; since KIP-890 (transaction version
2) the epoch is already the next one, so that late batches of the transaction are fenced. The type
is in the record, not in the batch's header.
"""

import struct
from typing import NamedTuple

from nodes.log.batch import Buffer, Record, decode_records, encode_batch, read_header
from nodes.log.errors import CorruptBatch

ABORT, COMMIT = 0, 1
NO_COORDINATOR = -1
"""The epoch of a coordinator that is not known."""
_VERSION = 0
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class Marker(NamedTuple):
    """The end of one transaction in one partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


def encode_marker(marker: Marker, timestamp_ms: int) -> bytes:
    """The control batch of a marker; `timestamp_ms` is wall-clock time."""
    record = Record(
        key=_KEY.pack(_VERSION, COMMIT if marker.committed else ABORT),
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return encode_batch(
        [record],
        timestamp_ms=timestamp_ms,
        control=True,
        transactional=True,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )


def decode_marker(buf: Buffer, pos: int = 0) -> Marker | None:
    """The marker in the batch at `pos`; None if the batch has none.

    Control batches of the metadata log have none, nor has a control batch whose record the log
    cleaner removed. Newer versions of key and value begin with the same fields.
    """
    header = read_header(buf, pos)
    if not header.is_control or header.producer_id < 0:
        return None
    try:
        records = decode_records(buf, pos)
    except CorruptBatch:
        return None
    key, value = (records[0].key, records[0].value) if records else (None, None)
    if key is None or value is None or len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    _, kind = _KEY.unpack_from(key)
    if kind not in (ABORT, COMMIT):
        return None
    _, coordinator_epoch = _VALUE.unpack_from(value)
    return Marker(header.producer_id, header.producer_epoch, coordinator_epoch, kind == COMMIT)


def marker_in(buf: Buffer, pos: int = 0) -> Marker | None:
    """The marker in a control batch of a data log, also of one whose record was removed; None if
    the batch has none.

    A replica that lagged for longer than delete.retention.ms may have records of a transaction
    whose marker it never got. They were aborted, or newer records of their keys follow; so a marker
    without its record counts as one that aborts. The epoch of its coordinator is not known.
    """
    header = read_header(buf, pos)
    if header.is_control and header.producer_id >= 0 and not header.record_count:
        return Marker(header.producer_id, header.producer_epoch, NO_COORDINATOR, committed=False)
    return decode_marker(buf, pos)
