"""Record batches, format version 2, as clients send them and segment files hold them.

The module reads and checks headers, writes the fields that a leader assigns, and encodes and
decodes the uncompressed batches that brokers write themselves. In the header of a client's batch
only base offset and leader epoch are patched, which are outside the CRC, and the time if the topic
has LogAppendTime. Only the log cleaner writes other records into it (`nodes.log.cleaning`). The
callers check whether a batch belongs where it is.

Layout (big endian), from the batch's first byte:
    0 base offset i64 | 8 length of the rest i32 | 12 partition leader epoch i32 | 16 magic i8
    17 CRC32C u32 of all that follows | 21 attributes i16 | 23 last offset delta i32
    27 base timestamp i64 | 35 max timestamp i64 | 43 producer id i64 | 51 producer epoch i16
    53 base sequence i32 | 57 record count i32 | 61 records
"""

import dataclasses
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from nodes.ids import NO_EPOCH, NO_OFFSET, Epoch, Offset
from nodes.log.errors import CorruptBatch

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
"""Base offset and length: the bytes that the length field does not count."""

MAGIC: Final = 2
UNKNOWN_LENGTH: Final = 0
NO_CRC: Final = 0
"""In a header whose length and CRC `assemble` calculates."""

MAX_SEQUENCE = 2**31 - 1

UNASSIGNED_OFFSET = Offset(0)
"""The base offset of a producer's batch until the leader assigns one."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_UNCHECKED, _CHECKED = struct.Struct(">qiibI"), struct.Struct(">hiqqqhii")
"""The two parts of a header: what the CRC does not cover, and what it does."""
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = 17, 21, 35
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_CHECKED_FROM = 21
_COMPRESSION_MASK = 0x07
_TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
_DELETE_HORIZON_BIT = 0x40

Buffer = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """A batch's fixed fields, in file order. A named tuple, because every batch needs one."""

    base_offset: Offset
    batch_length: int
    partition_leader_epoch: Epoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> Offset:
        """Offset of the batch's last record."""
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        """The offset of the next batch."""
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & _COMPRESSION_MASK

    def with_compression(self, codec: int) -> "BatchHeader":
        """The header of a batch whose records are compressed by `codec`."""
        return self._replace(attributes=self.attributes & ~_COMPRESSION_MASK | codec)

    @property
    def is_control(self) -> bool:
        """Whether it holds control records, which consumers skip."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def has_append_time(self) -> bool:
        """Whether all its records have the time of the leader's append."""
        return bool(self.attributes & _TIMESTAMP_TYPE_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which the log cleaner may remove the batch's
        tombstones or marker (KIP-534).
        """
        return bool(self.attributes & _DELETE_HORIZON_BIT)

    @property
    def first_timestamp(self) -> int:
        """The first record's time; the largest of all if the header does not have the first."""
        if self.attributes & (_TIMESTAMP_TYPE_BIT | _DELETE_HORIZON_BIT):
            return self.max_timestamp
        return self.base_timestamp

    def record_timestamp(self, delta: int) -> int:
        """The time of a record with this timestamp delta; deltas count from a horizon, too."""
        return self.max_timestamp if self.has_append_time else self.base_timestamp + delta

    @property
    def oldest_timestamp(self) -> int:
        """Not later than any record's time; -1 if the header does not have such a time."""
        return -1 if self.has_delete_horizon else self.first_timestamp

    @property
    def is_filler(self) -> bool:
        """Whether it only stands for removed batches: see `nodes.log.cleaning.fillers`."""
        return not self.record_count and self.producer_id < 0 and not self.is_control

    def with_delete_horizon(self, horizon_ms: int) -> "BatchHeader":
        """The header with this delete horizon."""
        attributes = self.attributes | _DELETE_HORIZON_BIT
        return self._replace(attributes=attributes, base_timestamp=horizon_ms)

    def with_records(self, count: int, max_timestamp: int) -> "BatchHeader":
        """The header of a batch of so many of the records; length and CRC are not calculated."""
        return tuple.__new__(BatchHeader, (*self[:8], max_timestamp, *self[9:12], count))

    def without_records(self) -> "BatchHeader":
        """The header of a batch whose records were all removed: it keeps offsets, leader epoch,
        sequence and the largest timestamp.
        """
        attributes = self.attributes & ~(_COMPRESSION_MASK | _DELETE_HORIZON_BIT)
        oldest = self.oldest_timestamp
        return self._replace(attributes=attributes, base_timestamp=oldest, record_count=0)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap from 2^31-1 to 0. -1 without a sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record. `encode_batch` ignores `offset`, and replaces timestamp -1 by the batch's."""

    offset: Offset = NO_OFFSET
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Read the header of the batch at `pos`.

    Raises CorruptBatch if there are fewer than 61 bytes, or they cannot begin a batch v2. The batch
    itself may extend beyond the buffer.
    """
    try:
        header = tuple.__new__(BatchHeader, _HEADER.unpack_from(buf, pos))  # the fastest way
    except struct.error:
        raise CorruptBatch(f"{len(buf) - pos} bytes are too few for a batch header") from None
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic} instead of {MAGIC}")
    if (
        header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES
        or header.last_offset_delta < 0
        or header.base_offset < 0
    ):
        raise CorruptBatch(
            f"impossible header: base offset {header.base_offset}, length {header.batch_length}, "
            f"last offset delta {header.last_offset_delta}"
        )
    return header


def iter_batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch, without an incomplete last batch.

    Raises CorruptBatch at bytes that cannot begin a batch. Does not check CRCs.
    """
    pos = 0
    end = len(buf)
    while end - pos >= HEADER_BYTES:
        header = read_header(buf, pos)
        following = pos + LOG_OVERHEAD_BYTES + header.batch_length
        if following > end:
            return
        yield pos, header
        pos = following


def check_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Raise CorruptBatch unless the batch at `pos` is complete and matches its CRC32C."""
    end = pos + LOG_OVERHEAD_BYTES + header.batch_length
    if end > len(buf):
        raise CorruptBatch(f"{len(buf) - pos} bytes of a batch of {header.size}")
    computed = crc32c(memoryview(buf)[pos + _CHECKED_FROM : end])
    if computed != header.crc:
        raise CorruptBatch(f"CRC32C is {computed:#010x}, the batch says {header.crc:#010x}")


def patch(buf: bytearray, pos: int, *, base_offset: Offset, leader_epoch: Epoch) -> None:
    """Write, in place, the fields that the leader assigns; the CRC covers neither of them."""
    _OFFSET.pack_into(buf, pos, base_offset)
    _EPOCH.pack_into(buf, pos + LOG_OVERHEAD_BYTES, leader_epoch)


def with_append_time(batch: bytes, wall_ms: int) -> bytes:
    """Replace the time of a client's batch by the leader's (LogAppendTime), with a new CRC.

    Raises CorruptBatch if the batch's own CRC is wrong: it must not get a correct one.
    """
    header = read_header(batch)
    check_crc(batch, 0, header)
    stamped = bytearray(batch)
    _ATTRIBUTES.pack_into(stamped, _ATTRIBUTES_AT, header.attributes | _TIMESTAMP_TYPE_BIT)
    _TIMESTAMP.pack_into(stamped, _MAX_TIMESTAMP_AT, wall_ms)
    checked = memoryview(stamped)[_CHECKED_FROM : header.size]
    _CRC.pack_into(stamped, _CRC_AT, crc32c(checked))
    return bytes(stamped)


def assemble(header: BatchHeader, records: bytes = b"") -> bytes:
    """A batch of this header and these (compressed) records; length and CRC are calculated."""
    checked = _CHECKED.pack(*header[5:])
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(records)
    crc = crc32c(records, crc32c(checked))
    return _UNCHECKED.pack(header[0], length, header[2], header[3], crc) + checked + records


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: Offset = UNASSIGNED_OFFSET,
    leader_epoch: Epoch = NO_EPOCH,
    timestamp_ms: int,
    control: bool = False,
    transactional: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Encode one uncompressed batch of at least one record; `timestamp_ms` is wall-clock time."""
    if not records:
        raise ValueError("a batch holds at least one record")
    attributes = (CONTROL_BIT if control else 0) | (TRANSACTIONAL_BIT if transactional else 0)
    stamps = [timestamp_ms if r.timestamp < 0 else r.timestamp for r in records]
    pieces: list[bytes] = []
    for delta, (record, stamp) in enumerate(zip(records, stamps, strict=True)):
        encoded = _encode_record(record, delta, stamp - stamps[0])
        pieces += varint(len(encoded)), encoded
    header = BatchHeader(
        base_offset, UNKNOWN_LENGTH, leader_epoch, MAGIC, NO_CRC, attributes, len(records) - 1,
        stamps[0], max(stamps), producer_id, producer_epoch, base_sequence, len(records),
    )  # fmt: skip
    return assemble(header, b"".join(pieces))


def decode_records(buf: Buffer, pos: int = 0) -> list[Record]:
    """Decode the records of the uncompressed batch at `pos`.

    Raises CorruptBatch if it is compressed or its records do not parse; does not check the CRC.
    """
    header = read_header(buf, pos)
    if header.compression:
        raise CorruptBatch(f"compressed with codec {header.compression}, which is not decoded here")
    end = pos + header.size
    records = []
    at = pos + HEADER_BYTES
    try:
        for _ in range(header.record_count):
            length, at = _read_varint(buf, at)
            if length < 0 or at + length > end:
                raise CorruptBatch("a record reaches beyond its batch")
            records.append(_decode_record(bytes(buf[at : at + length]), header))
            at += length
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptBatch(f"records do not parse: {error}") from None
    return records


def _encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    key, value, headers = record.key, record.value, record.headers
    pieces = [
        _NO_ATTRIBUTES,
        varint(timestamp_delta),
        varint(offset_delta),
        *(_NULL if key is None else (varint(len(key)), key)),
        *(_NULL if value is None else (varint(len(value)), value)),
        varint(len(headers)),
    ]
    for name, content in headers:
        pieces += [_nullable(name.encode()), _nullable(content)]
    return b"".join(pieces)


def _decode_record(buf: bytes, header: BatchHeader) -> Record:
    timestamp_delta, at = _read_varint(buf, 1)
    offset_delta, at = _read_varint(buf, at)
    key, at = _read_nullable(buf, at)
    value, at = _read_nullable(buf, at)
    count, at = _read_varint(buf, at)
    headers = []
    for _ in range(count):
        name, at = _read_nullable(buf, at)
        content, at = _read_nullable(buf, at)
        headers.append(((name or b"").decode(), content))
    return Record(
        offset=Offset(header.base_offset + offset_delta),
        timestamp=header.record_timestamp(timestamp_delta),
        key=key,
        value=value,
        headers=tuple(headers),
    )


_NO_ATTRIBUTES: Final = b"\x00"
"""Of a record: unused."""


def _nullable(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def _read_nullable(buf: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _read_varint(buf, at)
    if length < 0:
        return None, at
    if at + length > len(buf):
        raise IndexError("a field reaches beyond its record")
    return buf[at : at + length], at + length


def varint(value: int) -> bytes:
    """Zigzag encoding, seven bits per byte, least significant first."""
    return _SMALL_VARINTS[value] if 0 <= value < SMALL else _varint(value)


def _varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


SMALL: Final = 1024
"""Most lengths and deltas are below; their encodings are kept."""
_SMALL_VARINTS: Final = tuple(_varint(value) for value in range(SMALL))
_NULL: Final = (_varint(-1),)


def _read_varint(buf: Buffer, at: int) -> tuple[int, int]:
    """A value of up to ten bytes, and the position after it."""
    rest = 0
    for shift in range(0, 70, 7):
        byte = buf[at]
        at += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), at
    raise CorruptBatch("a variable-length integer of more than ten bytes")
