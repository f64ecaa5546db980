"""Where the records of a batch are, and what the cleaner needs of them. Pure.

Records are not decoded to objects: a log may have millions. Of each there is one tuple.
"""

from nodes.log.errors import CorruptBatch

Span = tuple[int, int, int, int, int, bytes | None, bool]
"""Position of the record's length, end of the record, offset delta, timestamp delta, position of
the offset delta, key, and whether there is a value.
"""


def read_spans(data: bytes, at: int, count: int) -> tuple[list[Span], int]:
    """The next `count` records from position `at` of a batch's decompressed records, and the
    position after them. Raises CorruptBatch.
    """
    spans: list[Span] = []
    try:
        for _ in range(count):
            start = at
            size, at = _varint(data, at)
            stop = at + size
            if size < 0 or stop > len(data):
                raise CorruptBatch("a record reaches beyond its batch")
            stamp = data[at + 1]
            if stamp < 0x80:
                stamp, at = (stamp >> 1) ^ -(stamp & 1), at + 2
            else:
                stamp, at = _varint(data, at + 1)
            rest = at
            delta = data[at]
            if delta < 0x80:
                delta, at = (delta >> 1) ^ -(delta & 1), at + 1
            else:
                delta, at = _varint(data, at)
            size = data[at]
            if size < 0x80:
                size, at = (size >> 1) ^ -(size & 1), at + 1
            else:
                size, at = _varint(data, at)
            key = None
            if size >= 0:
                key, at = data[at : at + size], at + size
            size = data[at]
            if size >= 0x80:
                size, _ = _varint(data, at)
                valued = size >= 0
            else:
                valued = not size & 1
            if at >= stop:
                raise CorruptBatch("a key reaches beyond its record")
            spans.append((start, stop, delta, stamp, rest, key, valued))
            at = stop
    except IndexError:
        raise CorruptBatch("records that reach beyond their batch") from None
    return spans, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag value of up to ten bytes, and the position after it."""
    value = data[at]
    at += 1
    if value > 0x7F:
        value &= 0x7F
        for shift in range(7, 70, 7):
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise CorruptBatch("a variable-length integer of more than ten bytes")
    return (value >> 1) ^ -(value & 1), at
