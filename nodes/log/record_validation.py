"""Whether the records of a producer's batch match its header. Pure.

A consumer that cannot read a batch stops there for ever, so an unreadable batch must not get into a
log. Uncompressed records are checked one by one, as in Kafka, in half a microsecond each; at most
MAX_WALKED records of a batch, because the loop must not be blocked for long. Unlike Kafka, the
broker decompresses only the batches of compacted topics, where every record needs a key. Of any
other compressed batch it checks that it begins as its codec requires, and can contain the announced
number of records; not that it can be decompressed.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nodes.log.compression import decompress
from nodes.log.errors import CorruptBatch, InvalidBatch, KeylessRecords

MIN_RECORD_BYTES: Final = 7
"""Length, attributes, two deltas, no key, no value, no headers."""

MAX_WALKED: Final = 50_000

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


class _Codec(NamedTuple):
    """The fixed beginning of its data (if any), and the largest expansion of one byte."""

    name: str
    beginning: bytes
    expansion: int


_CODECS: Final[Mapping[int, _Codec]] = {
    GZIP: _Codec("gzip", b"\x1f\x8b\x08", 1032),
    SNAPPY: _Codec("snappy", b"", 64),  # with or without a header of its own
    LZ4: _Codec("lz4", b"\x04\x22\x4d\x18", 255),
    ZSTD: _Codec("zstd", b"\x28\xb5\x2f\xfd", 1 << 15),
}


def check_records(
    batch: bytes, start: int, end: int, codec: int, count: int, *, keyed: bool = False
) -> None:
    """Raise InvalidBatch unless `batch` can have `count` records from `start` to `end`.

    With `keyed` the records are decompressed, and each must have a key: KeylessRecords.
    """
    if codec == 0:
        _check_plain(batch, start, end, count, keyed)
        return
    known = _CODECS.get(codec)
    if known is None:
        raise InvalidBatch(f"codec {codec}, which does not exist")
    if not batch.startswith(known.beginning, start, end) or start == end:
        raise InvalidBatch(f"what is called {known.name} does not begin as {known.name} does")
    check_count(count, (end - start) * known.expansion)
    if keyed:
        try:
            records = decompress(codec, batch[start:end])
        except CorruptBatch as error:
            raise InvalidBatch(str(error)) from None
        _check_plain(records, 0, len(records), count, keyed)


def _check_plain(data: bytes, start: int, end: int, count: int, keyed: bool) -> None:
    check_count(count, end - start)
    try:
        _walk(data, start, end, count, keyed)
    except IndexError:
        raise InvalidBatch("records that reach beyond their batch") from None


def check_count(count: int, size: int) -> None:
    """Raise InvalidBatch unless `size` bytes can contain `count` records."""
    if not 0 < count <= size // MIN_RECORD_BYTES:
        raise InvalidBatch(f"{count} records cannot be in {size} bytes")


def _walk(data: bytes, at: int, end: int, count: int, keyed: bool) -> None:
    """Check each record. Raises InvalidBatch, and IndexError if the data ends too early.

    Lengths of one and two bytes are read inline: calls would double the time.
    """
    keyless: list[int] = []
    for number in range(min(count, MAX_WALKED)):
        size = data[at]
        at += 1
        if size > 0x7F:
            if data[at] < 0x80:
                size = size & 0x7F | data[at] << 7
                at += 1
            else:
                size, at = _uvarint(data, at - 1)
        stop = at + (size >> 1)
        if size & 1 or stop > end:
            raise InvalidBatch(f"record {number} reaches beyond its batch")
        at += 1  # attributes
        if data[at] > 0x7F:
            at = _last_byte(data, at)
        at += 1  # timestamp
        delta = data[at]
        at += 1
        if delta > 0x7F:
            if data[at] < 0x80:
                delta = delta & 0x7F | data[at] << 7
                at += 1
            else:
                delta, at = _uvarint(data, at - 1)
        if delta != number << 1:  # zigzag, as all these numbers
            raise InvalidBatch(f"record {number} does not have offset {number} of its batch")
        size = data[at]  # the key's
        at += 1
        if size > 0x7F:
            if data[at] < 0x80:
                size = size & 0x7F | data[at] << 7
                at += 1
            else:
                size, at = _uvarint(data, at - 1)
        if not size & 1:
            at += size >> 1
        elif keyed:
            keyless.append(number)
        size = data[at]  # the value's
        at += 1
        if size > 0x7F:
            if data[at] < 0x80:
                size = size & 0x7F | data[at] << 7
                at += 1
            else:
                size, at = _uvarint(data, at - 1)
        if not size & 1:
            at += size >> 1
        if data[at] == 0:  # no headers
            at += 1
        else:
            at = _past_headers(data, at, stop)
        if at != stop:
            raise InvalidBatch(f"record {number} is not as long as it says")
    if at != end and count <= MAX_WALKED:
        raise InvalidBatch(f"{end - at} bytes after the last of {count} records")
    if keyless:
        raise KeylessRecords(keyless)


def _past_headers(data: bytes, at: int, stop: int) -> int:
    headers, at = _size(data, at)
    if headers < 0:
        raise InvalidBatch("a negative number of headers")
    for _ in range(headers):
        size, at = _size(data, at)
        if size < 0:
            raise InvalidBatch("a header without a name")
        at = _past_bytes(data, at + size)
        if at > stop:
            raise InvalidBatch("a header that reaches beyond its record")
    return at


def _past_bytes(data: bytes, at: int) -> int:
    """The end of nullable bytes whose length begins at `at`."""
    size = data[at]
    at += 1
    if size > 0x7F:
        size, at = _uvarint(data, at - 1)
    return at if size & 1 else at + (size >> 1)


def _size(data: bytes, at: int) -> tuple[int, int]:
    """A length or a count, and its end."""
    size = data[at]
    at += 1
    if size > 0x7F:
        size, at = _uvarint(data, at - 1)
    return (size >> 1) ^ -(size & 1), at


def _last_byte(data: bytes, at: int) -> int:
    """The position of the last byte of a varint of up to ten bytes."""
    for last in range(at, at + 10):
        if data[last] < 0x80:
            return last
    raise InvalidBatch("a variable-length integer of more than ten bytes")


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    """A varint of up to five bytes, without zigzag decoding, and its end."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise InvalidBatch("a variable-length integer of more than five bytes")
