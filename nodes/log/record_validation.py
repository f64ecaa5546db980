"""Whether the records of a producer's batch are what its header says. Pure.

A consumer that cannot read a batch stops there for ever, so one that nobody could read must not
get into a log. Uncompressed records are walked, as Kafka does, at half a microsecond each; of a
batch of more than MAX_WALKED only so many, for the loop must not stand still for long. Nothing is
decompressed here, unlike in Kafka: of a compressed batch it is known that it begins as its codec
does and can hold as many records as it announces, and not that it can be decompressed.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nodes.log.errors import InvalidBatch

MIN_RECORD_BYTES: Final = 7
"""Length, attributes, two deltas, no key, no value, no headers."""

MAX_WALKED: Final = 50_000

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


class _Codec(NamedTuple):
    """How its data begins (if always the same), and how many bytes one byte can become."""

    name: str
    beginning: bytes
    expansion: int


_CODECS: Final[Mapping[int, _Codec]] = {
    GZIP: _Codec("gzip", b"\x1f\x8b\x08", 1032),
    SNAPPY: _Codec("snappy", b"", 64),  # with or without a header of its own
    LZ4: _Codec("lz4", b"\x04\x22\x4d\x18", 255),
    ZSTD: _Codec("zstd", b"\x28\xb5\x2f\xfd", 1 << 15),
}


def check_records(batch: bytes, start: int, end: int, codec: int, count: int) -> None:
    """Raise InvalidBatch unless `count` records can be between `start` and `end` of `batch`."""
    if codec == 0:
        check_count(count, end - start)
        try:
            _walk(batch, start, end, count)
        except IndexError:
            raise InvalidBatch("records that reach beyond their batch") from None
        return
    known = _CODECS.get(codec)
    if known is None:
        raise InvalidBatch(f"codec {codec}, which does not exist")
    if not batch.startswith(known.beginning, start, end) or start == end:
        raise InvalidBatch(f"what is called {known.name} does not begin as {known.name} does")
    check_count(count, (end - start) * known.expansion)


def check_count(count: int, size: int) -> None:
    """Raise InvalidBatch unless so many records can be in `size` bytes."""
    if not 0 < count <= size // MIN_RECORD_BYTES:
        raise InvalidBatch(f"{count} records cannot be in {size} bytes")


def _walk(data: bytes, at: int, end: int, count: int) -> None:
    """Raises InvalidBatch, and IndexError where the data ends too early.

    Lengths of one and two bytes are read in place: calls would double the time.
    """
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
    """Where nullable bytes end that begin with their length at `at`."""
    size = data[at]
    at += 1
    if size > 0x7F:
        size, at = _uvarint(data, at - 1)
    return at if size & 1 else at + (size >> 1)


def _size(data: bytes, at: int) -> tuple[int, int]:
    """A length or a count, and where it ends."""
    size = data[at]
    at += 1
    if size > 0x7F:
        size, at = _uvarint(data, at - 1)
    return (size >> 1) ^ -(size & 1), at


def _last_byte(data: bytes, at: int) -> int:
    """Of a varint of up to ten bytes."""
    for last in range(at, at + 10):
        if data[last] < 0x80:
            return last
    raise InvalidBatch("a variable-length integer of more than ten bytes")


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    """A varint of up to five bytes, not unfolded, and where it ends."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise InvalidBatch("a variable-length integer of more than five bytes")
