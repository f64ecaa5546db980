"""Where the records of a batch are, and what the cleaner needs of them. Pure.

Records are not decoded to objects: a log may have millions. Lengths of one and two bytes are read
inline: calls would double the time.

A key of 31 bytes or more is represented by 31 bytes of BLAKE2b; nobody can construct two keys with
the same ones. A shorter key represents itself: it needs no more memory.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Final, NamedTuple

from nodes.log.batch import varint
from nodes.log.errors import CorruptBatch

DIGEST_BYTES: Final = 31
"""Of a bytes object of 64 bytes, 33 are not its content."""


class Keys(NamedTuple):
    """Of each record its offset delta, its key or the digest of a long key, and its size in bytes;
    and which of them are tombstones, by number. The lists grow when more records are read.
    """

    deltas: list[int]
    keys: list[bytes | None]
    sizes: list[int]
    tombstones: list[int]


def no_keys() -> Keys:
    """Those of no record yet."""
    return Keys([], [], [], [])


def read_keys(found: Keys, data: bytes, at: int, count: int, *, end: int, last_delta: int) -> int:
    """Add the keys of the next `count` records from position `at` to `found`; return the position
    after them.

    The batch's decompressed records end at position `end`; `last_delta` is its largest offset
    delta. Raises CorruptBatch.
    """
    deltas, keys, sizes, tombstones = found
    most = last_delta << 1
    try:
        for _ in repeat(None, count):
            start = at
            size = data[at]
            at += 1
            if size >= 0x80:
                high = data[at]
                if high < 0x80:
                    size = size & 0x7F | high << 7
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
                high = data[at]
                if high < 0x80:
                    delta = delta & 0x7F | high << 7
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
                key = data[at : at + size]
                keys.append(key if size < DIGEST_BYTES else digest(key))
                at += size
            if data[at] & 1:  # the lowest bit says whether there is a value, however long it is
                tombstones.append(len(keys) - 1)
            if at >= stop:
                raise CorruptBatch("a key reaches beyond its record")
            if delta & 1 or delta > most:
                raise CorruptBatch("an offset delta beyond its batch")
            deltas.append(delta >> 1)
            sizes.append(stop - start)
            at = stop
    except IndexError:
        raise CorruptBatch("records that reach beyond their batch") from None
    return at


def digest(key: bytes) -> bytes:
    """What represents a key of at least DIGEST_BYTES."""
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


def keep_records(
    kept: list[bytes], data: bytes, at: int, sizes: Sequence[int], fates: bytes | bytearray
) -> int:
    """Add to `kept` the records whose fates are not 0, of those of these sizes from position `at`
    on; return the position after all of them.
    """
    for size, fate in zip(sizes, fates, strict=True):
        end = at + size
        if fate:
            kept.append(data[at:end])
        at = end
    return at


def latest_delta(records: Sequence[bytes], most: int) -> int:
    """The largest timestamp delta of these records, of which none is above `most`. Often the last
    record has it.
    """
    latest = _timestamp_delta(records[-1])[0]
    if latest < most:
        latest = max([_timestamp_delta(record)[0] for record in records])
    return latest


def shifted(record: bytes, shift: int) -> bytes:
    """The record with a timestamp delta that is larger by `shift`."""
    stamp, rest = _timestamp_delta(record)
    changed = bytes(1) + varint(stamp + shift) + record[rest:]
    return varint(len(changed)) + changed


def _timestamp_delta(record: bytes) -> tuple[int, int]:
    """A record's timestamp delta, and the position after it."""
    at = 0
    while record[at] >= 0x80:  # the record's length
        at += 1
    at += 2
    stamp = record[at]
    at += 1
    if stamp >= 0x80:
        stamp, at = _uvarint(record, at - 1)
    return (stamp >> 1) ^ -(stamp & 1), at


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
