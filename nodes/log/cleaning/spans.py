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

    Lengths of one and two bytes are read inline: calls would double the time.
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
            size = data[at]
            at += 1
            if size >= 0x80:
                size, at = _uvarint(data, at - 1)
            key = None
            if not size & 1:
                size >>= 1
                key = data[at : at + size]
                at += size
            size = data[at]  # its lowest bit says whether there is a value, however long it is
            if at >= stop:
                raise CorruptBatch("a key reaches beyond its record")
            delta = (delta >> 1) ^ -(delta & 1)
            stamp = (stamp >> 1) ^ -(stamp & 1)
            spans.append((start, stop, delta, stamp, rest, key, not size & 1))
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
