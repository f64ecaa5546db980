"""The payload of a workload's record: the run, the client, the sequence, the value, a checksum.

The bytes of a payload, big-endian, then padding up to the planned size:

    magic 4 | crc32c 4 | run id 8 | client 4 | sequence 4 | value 8 | padding

The checksum covers everything after it, with the padding, so that a flipped bit anywhere is found.
A record is `checksum` when it looks like a payload of ours (by magic or run id) but its checksum is
wrong. It is `foreign` when it is an intact payload of another run, or no payload at all.

The value is `client << 32 | sequence`. It is unique in a run, because client numbers and a client's
sequences are. Pure.
"""

import hashlib
import struct

import crc32c

MAGIC = b"HWP1"
_HEAD = struct.Struct(">4sI")
_BODY = struct.Struct(">8siiq")
_VALUE = struct.Struct(">q")
_VALUE_AT = _HEAD.size + _BODY.size - _VALUE.size
HEADER_BYTES = _HEAD.size + _BODY.size
"""The least size of a payload."""

CHECKSUM = "checksum"
"""The history's `error` for a record of this run with a wrong checksum."""

FOREIGN = "foreign"
"""The history's `error` for a record that this run did not write."""

MAX_SEQUENCE = (1 << 31) - 1


def value_of(client: int, sequence: int) -> int:
    """Return the value of a client's send; it is unique in the run."""
    return client << 32 | sequence


def client_of(value: int) -> int:
    """Return the client that sent a value."""
    return value >> 32


def sequence_of(value: int) -> int:
    """Return which send of its client a value is."""
    return value & MAX_SEQUENCE


def run_tag(run_id: str) -> bytes:
    """Return the 8 bytes that represent a run id in payloads."""
    return hashlib.blake2b(run_id.encode(), digest_size=8).digest()


def peek_value(payload: bytes) -> int:
    """Return the value of a payload that this process made itself; nothing is checked."""
    value: int = _VALUE.unpack_from(payload, _VALUE_AT)[0]
    return value


class PayloadCodec:
    """Encodes and decodes the payloads of one run.

    `size` is a payload's length in bytes; raises ValueError when the header does not fit.
    """

    __slots__ = ("_padding", "_tag")

    def __init__(self, run_id: str, size: int) -> None:
        if size < HEADER_BYTES:
            raise ValueError(f"a payload needs at least {HEADER_BYTES} bytes, not {size}")
        self._tag = run_tag(run_id)
        # These bytes do not repeat, so that a shifted or repeated block changes the checksum, and
        # compression has no effect.
        self._padding = hashlib.shake_128(self._tag).digest(size - HEADER_BYTES)

    def encode(self, client: int, sequence: int) -> bytes:
        """Return the payload of one send. Client and sequence are non-negative 31-bit numbers."""
        body = _BODY.pack(self._tag, client, sequence, client << 32 | sequence) + self._padding
        return _HEAD.pack(MAGIC, crc32c.crc32c(body)) + body

    def key(self, value: int, partition: int) -> bytes | None:
        """Return the key of a record: none."""
        return None

    def peek(self, payload: bytes) -> int:
        """See `peek_value`."""
        return peek_value(payload)

    def decode(self, payload: bytes | None) -> tuple[int | None, str | None]:
        """Return (value, None) for a payload of this run, else (None, CHECKSUM or FOREIGN)."""
        if payload is None or len(payload) < HEADER_BYTES:
            cut = payload is not None and payload.startswith(MAGIC)
            return None, CHECKSUM if cut else FOREIGN
        magic, crc = _HEAD.unpack_from(payload)
        tag, client, sequence, value = _BODY.unpack_from(payload, _HEAD.size)
        if magic == MAGIC and crc32c.crc32c(memoryview(payload)[_HEAD.size :]) == crc:
            if tag != self._tag or value != client << 32 | sequence:
                return None, FOREIGN
            return value, None
        return None, CHECKSUM if magic == MAGIC or tag == self._tag else FOREIGN
