"""Where the records of a batch are, and what the cleaner needs of them. Pure.

Records are not decoded to objects: a log may have millions. Lengths of one and two bytes are read
inline: calls would double the time.
"""

from typing import NamedTuple

from nodes.log.errors import CorruptBatch

Span = tuple[int, int, int, int, bool]
"""Position of the record's length, end of the record, timestamp delta, position of the offset
delta, and whether there is a value.
"""


class Keys(NamedTuple):
    """Of each record its offset delta and its key; and which of them are tombstones, by number."""

    deltas: list[int]
    keys: list[bytes | None]
    tombstones: list[int]


def read_keys(data: bytes, at: int, count: int) -> tuple[Keys, int]:
    """The keys of the next `count` records from position `at`, and the position after them.

    `data` ends with a batch's decompressed records. Raises CorruptBatch.
    """
    deltas: list[int] = []
    keys: list[bytes | None] = []
    tombstones: list[int] = []
    end = len(data)
    try:
        for number in range(count):
            size = data[at]
            at += 1
            if size >= 0x80:
                if data[at] < 0x80:
                    size = size & 0x7F | data[at] << 7
                    at += 1
                else:
                    size, at = _uvarint(data, at - 1)
            stop = at + (size >> 1)
            if size & 1 or stop > end:
                raise CorruptBatch("a record reaches beyond its batch")
            at += 1
            while data[at] >= 0x80:  # the timestamp's delta
                at += 1
            delta = data[at + 1]
            at += 2
            if delta >= 0x80:
                if data[at] < 0x80:
                    delta = delta & 0x7F | data[at] << 7
                    at += 1
                else:
                    delta, at = _uvarint(data, at - 1)
            size = data[at]
            at += 1
            if size >= 0x80:
                size, at = _uvarint(data, at - 1)
            if size & 1:
                keys.append(None)
            else:
                size >>= 1
                keys.append(data[at : at + size])
                at += size
            if data[at] & 1:  # the lowest bit says whether there is a value, however long it is
                tombstones.append(number)
            if at >= stop:
                raise CorruptBatch("a key reaches beyond its record")
            deltas.append((delta >> 1) ^ -(delta & 1))
            at = stop
    except IndexError:
        raise CorruptBatch("records that reach beyond their batch") from None
    return Keys(deltas, keys, tombstones), at


def read_spans(
    data: bytes, at: int, count: int, fates: bytes | bytearray
) -> tuple[list[Span], int]:
    """Those of the next `count` records from position `at` that stay, and the position after all.

    A record stays if the fate at its offset delta is not 0. Raises CorruptBatch.
    """
    spans: list[Span] = []
    end = len(data)
    try:
        for _ in range(count):
            start = at
            size = data[at]
            at += 1
            if size >= 0x80:
                if data[at] < 0x80:
                    size = size & 0x7F | data[at] << 7
                    at += 1
                else:
                    size, at = _uvarint(data, at - 1)
            stop = at + (size >> 1)
            if size & 1 or stop > end:
                raise CorruptBatch("a record reaches beyond its batch")
            stamp = data[at + 1]
            at += 2
            if stamp >= 0x80:
                stamp, at = _uvarint(data, at - 1)
            rest = at
            delta = data[at]
            at += 1
            if delta >= 0x80:
                if data[at] < 0x80:
                    delta = delta & 0x7F | data[at] << 7
                    at += 1
                else:
                    delta, at = _uvarint(data, at - 1)
            if fates[delta >> 1] and not delta & 1:
                size = data[at]
                at += 1
                if size >= 0x80:
                    size, at = _uvarint(data, at - 1)
                if not size & 1:
                    at += size >> 1
                if at >= stop:
                    raise CorruptBatch("a key reaches beyond its record")
                spans.append((start, stop, (stamp >> 1) ^ -(stamp & 1), rest, not data[at] & 1))
            at = stop
    except IndexError:
        raise CorruptBatch("records that reach beyond their batch") from None
    return spans, at


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    """A value of up to ten bytes, without zigzag decoding, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise CorruptBatch("a variable-length integer of more than ten bytes")
