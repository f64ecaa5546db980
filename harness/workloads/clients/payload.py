"""What the workload writes into a record: who sent it, as what, in which run, and a checksum.

The bytes of a payload, big-endian, then padding up to the planned size:

    magic 4 | crc32c 4 | run id 8 | client 4 | sequence 4 | value 8 | padding

The checksum covers everything behind it, the padding included, so a flipped bit anywhere is seen.
A record is `checksum` when it claims to be ours (magic or run id in place) and its bytes do not
add up, and `foreign` when it is whole but of another run, or no payload of ours at all.

The value is `client << 32 | sequence`: unique in a run because a client number and a client's
sequence are. Pure; leaves recording what was read to the history.
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
"""The history's `error` for a record of ours whose bytes do not add up."""

FOREIGN = "foreign"
"""The history's `error` for a record that this run did not write."""

MAX_SEQUENCE = (1 << 31) - 1


def value_of(client: int, sequence: int) -> int:
    """The value of a client's send: unique in the run."""
    return client << 32 | sequence


def client_of(value: int) -> int:
    """The client that sent a value."""
    return value >> 32


def run_tag(run_id: str) -> bytes:
    """The 8 bytes that stand for a run id of any length inside its payloads."""
    return hashlib.blake2b(run_id.encode(), digest_size=8).digest()


def peek_value(payload: bytes) -> int:
    """The value of a payload that this process made itself; nothing is checked."""
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
        # Bytes that do not repeat, so that a shifted or repeated block changes the checksum and a
        # compressing client gets nothing for free.
        self._padding = hashlib.shake_128(self._tag).digest(size - HEADER_BYTES)

    def encode(self, client: int, sequence: int) -> bytes:
        """The payload of one send: client and sequence are non-negative 31-bit numbers."""
        body = _BODY.pack(self._tag, client, sequence, client << 32 | sequence) + self._padding
        return _HEAD.pack(MAGIC, crc32c.crc32c(body)) + body

    def decode(self, payload: bytes | None) -> tuple[int | None, str | None]:
        """(value, None) for a payload of this run, else (None, CHECKSUM or FOREIGN)."""
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
