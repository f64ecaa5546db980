"""Batches as a producer may write them but seldom does, and batches that no producer may write.
Pure.

A valid batch has any number of records with and without keys, values and headers, times that jump,
and any codec. A wrong one is a valid batch with one thing wrong. Its error is Kafka's
(`LogValidator`, `UnifiedLog`, `ProduceRequest`, `AbstractLegacyRecordBatch` of Apache Kafka 4.2),
except where a kind says otherwise.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.log.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    Record,
    assemble,
    encode_batch,
    read_header,
    varint,
)
from nodes.log.compression import GZIP, compress

MAX_BYTES: Final = 100_000
"""The topic's max.message.bytes."""
COUNTS: Final = (1, 1, 2, 3, 64, 65, 130)
SIZES: Final = (0, 1, 62, 63, 64, 65, 127, 128, 200, 8_191, 8_192)
"""Around those at which a length needs another byte."""
MANY: Final = 10
"""A batch of more records has small values only."""
STEPS_MS: Final = (0, 1, 63, 64, 65, 8_191, 8_192, 1 << 20, 1 << 34, -1, -64, -65, -(1 << 34))
CODECS: Final = (0, 0, 0, 1, 2, 3, 4)
UNKNOWN_CODEC: Final = 5
_APPEND_TIME_BIT: Final = 0x08
_MAGIC_AT: Final = 16


class Stamp(NamedTuple):
    """What makes a batch the producer's next one."""

    producer_id: int
    epoch: int
    sequence: int


def encoded(records: Sequence[Record], stamp: Stamp, codec: int = 0) -> bytes:
    """Return a batch of these records."""
    batch = encode_batch(
        records,
        timestamp_ms=records[0].timestamp,
        producer_id=stamp.producer_id,
        producer_epoch=stamp.epoch,
        base_sequence=stamp.sequence,
    )
    if not codec:
        return batch
    header = read_header(batch).with_compression(codec)
    return assemble(header, compress(codec, batch[HEADER_BYTES:]))


def unusual_records(number: int, now_ms: int, rng: random.Random) -> list[Record]:
    """Return the records of the valid batch with this number, which its first value tells."""
    count = rng.choice(COUNTS)
    first = Record(timestamp=now_ms, value=b"batch %d" % number)
    return [first, *(_unusual_record(now_ms, count, rng) for _ in range(count - 1))]


def _unusual_record(now_ms: int, count: int, rng: random.Random) -> Record:
    sizes = SIZES[:-2] if count > MANY else SIZES
    names = ("", "name", "n" * 64, "n" * 130)
    headers = tuple(
        (rng.choice(names), _bytes(SIZES[:-2], rng)) for _ in range(rng.choice((0, 0, 1, 3)))
    )
    return Record(
        timestamp=now_ms + rng.choice(STEPS_MS),
        key=_bytes(sizes, rng),
        value=_bytes(sizes, rng),
        headers=headers,
    )


def _bytes(sizes: Sequence[int], rng: random.Random) -> bytes | None:
    return None if rng.random() < 0.2 else rng.randbytes(rng.choice(sizes))


class Wrong(NamedTuple):
    """A kind of wrong batch, the errors by which a broker refuses it, and what makes one of a
    valid batch of two or more records."""

    name: str
    errors: frozenset[ErrorCode]
    make: Callable[[bytes], bytes]


def _kind(name: str, make: Callable[[bytes], bytes], *errors: ErrorCode) -> Wrong:
    return Wrong(name, frozenset(errors or (ErrorCode.invalid_record,)), make)


def _other_checksum(batch: bytes) -> bytes:
    return batch[:-1] + bytes((batch[-1] ^ 1,))


def _with(batch: bytes, **fields: Any) -> bytes:
    """Return a batch with other fields in its header, and a checksum that matches."""
    return assemble(read_header(batch)._replace(**fields), batch[HEADER_BYTES:])


def _bits(bits: int) -> Callable[[bytes], bytes]:
    return lambda batch: _with(batch, attributes=read_header(batch).attributes | bits)


def _counted(more: int) -> Callable[[bytes], bytes]:
    """Announce more records than there are, or fewer."""

    def make(batch: bytes) -> bytes:
        count = read_header(batch).record_count + more
        return _with(batch, record_count=count, last_offset_delta=count - 1)

    return make


def _record(
    number: int,
    *,
    more_bytes: int = 0,
    time: bytes = varint(0),
    headers: bytes = varint(0),
    value_bytes: int = 5,
) -> bytes:
    fields = b"\0" + time + varint(number) + varint(-1) + varint(value_bytes) + b"wrong" + headers
    return varint(len(fields) + more_bytes) + fields


def _of(*records: bytes) -> Callable[[bytes], bytes]:
    """Replace the records."""

    def make(batch: bytes) -> bytes:
        header = read_header(batch)._replace(
            record_count=len(records), last_offset_delta=len(records) - 1
        )
        return assemble(header, b"".join(records))

    return make


def _too_large(batch: bytes) -> bytes:
    fields = b"\0\0\0" + varint(-1) + varint(MAX_BYTES) + bytes(MAX_BYTES) + varint(0)
    return _of(varint(len(fields)) + fields)(batch)


def _old_magic(batch: bytes) -> bytes:
    return batch[:_MAGIC_AT] + b"\1" + batch[_MAGIC_AT + 1 :]


_OVERLONG: Final = b"\xff" * 10 + b"\1"
"""A number of eleven bytes: the largest has ten."""

WRONG: Final = (
    _kind("another checksum", _other_checksum, ErrorCode.corrupt_message),
    _kind("a base offset", lambda b: _with(b, base_offset=7)),
    _kind("a last offset that does not match", lambda b: _with(b, last_offset_delta=7)),
    _kind("more records announced", _counted(1)),
    _kind("fewer records announced", _counted(-1)),
    _kind("no record announced", lambda b: _with(b, record_count=0)),
    # Kafka counts uncompressed records and does not look at their offsets.
    _kind("records with other offsets", _of(_record(0), _record(2))),
    _kind("a record longer than it is", _of(_record(0), _record(1, more_bytes=1))),
    _kind("a record shorter than it is", _of(_record(0), _record(1, more_bytes=-1))),
    _kind("a value beyond its record", _of(_record(0), _record(1, value_bytes=60))),
    _kind("a byte after the last record", _of(_record(0), _record(1) + b"\0")),
    _kind("an overlong time", _of(_record(0), _record(1, time=_OVERLONG))),
    _kind("a negative number of headers", _of(_record(0), _record(1, headers=varint(-1)))),
    _kind("a header without a name", _of(_record(0, headers=varint(1) + varint(-1) + varint(-1)))),
    _kind("two batches", lambda b: b + b),
    _kind("no batch", lambda _: b""),
    _kind("magic 1", _old_magic),
    _kind("a control batch", _bits(CONTROL_BIT)),
    _kind("no sequence", lambda b: _with(b, base_sequence=-1)),
    _kind(
        "no transactional id", _bits(TRANSACTIONAL_BIT),
        ErrorCode.transactional_id_authorization_failed,
    ),
    _kind("the broker's time", _bits(_APPEND_TIME_BIT), ErrorCode.invalid_timestamp),
    # Kafka answers UNKNOWN_SERVER_ERROR, because it looks for no such codec.
    _kind("an unknown codec", _bits(UNKNOWN_CODEC), ErrorCode.unsupported_compression_type),
    _kind("what is not compressed", _bits(GZIP)),
    _kind("too large", _too_large, ErrorCode.message_too_large),
)  # fmt: skip
"""Wrong in itself, whatever the log has."""

OLD_EPOCH: Final = Wrong(
    "an old epoch", frozenset({ErrorCode.invalid_producer_epoch}), lambda batch: batch
)
GAP: Final = Wrong(
    "a gap in the sequence", frozenset({ErrorCode.out_of_order_sequence_number}), lambda b: b
)
"""Wrong by what the log has of the producer."""
GAP_RECORDS: Final = 1 << 20
"""More than a producer writes: the batch stays wrong, however late it arrives."""
