"""XXH3 with 64 bits, without a seed: the hash that Kafka takes for the metadata of topics.

By the specification of xxHash (doc/xxhash_spec.md). It costs about a microsecond for 16 bytes.
"""

import struct
from typing import Final

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK: Final = 2**64 - 1
_LOW: Final = 2**32 - 1
_P32_1: Final = 0x9E3779B1
_P32_2: Final = 0x85EBCA77
_P32_3: Final = 0xC2B2AE3D
_P64_1: Final = 0x9E3779B185EBCA87
_P64_2: Final = 0xC2B2AE3D27D4EB4F
_P64_3: Final = 0x165667B19E3779F9
_P64_4: Final = 0x85EBCA77C2B2AE63
_P64_5: Final = 0x27D4EB2F165667C5
_STRIPE: Final = 64
_BLOCK: Final = 1024
_EIGHT: Final = struct.Struct("<8Q")


def xxh3_64(data: bytes) -> int:
    """The hash of `data` as a signed 64-bit number, as Java has it."""
    if len(data) <= 16:
        value = _short(data)
    elif len(data) <= 240:
        value = _middle(data)
    else:
        value = _long(data)
    return value - (1 << 64) if value >> 63 else value


def _short(data: bytes) -> int:
    size = len(data)
    if size == 0:
        return _avalanche_64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))
    if size <= 3:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _avalanche_64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    if size <= 8:
        whole = _u32(data, size - 4) + (_u32(data, 0) << 32)
        mixed = whole ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        mixed ^= _rotated(mixed, 49) ^ _rotated(mixed, 24)
        mixed = mixed * 0x9FB21C651E98DF25 & _MASK
        mixed ^= (mixed >> 35) + size
        mixed = mixed * 0x9FB21C651E98DF25 & _MASK
        return mixed ^ mixed >> 28
    low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
    high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(size + swapped + high + _folded(low, high))


def _middle(data: bytes) -> int:
    size = len(data)
    total = size * _P64_1
    if size <= 128:
        for i in range((size - 1) // 32 + 1):
            total += _mixed(data, 16 * i, 32 * i)
            total += _mixed(data, size - 16 * (i + 1), 32 * i + 16)
        return _avalanche(total)
    for i in range(8):
        total += _mixed(data, 16 * i, 16 * i)
    total = _avalanche(total)
    for i in range(8, size // 16):
        total += _mixed(data, 16 * i, 16 * (i - 8) + 3)
    return _avalanche(total + _mixed(data, size - 16, 136 - 17))


def _long(data: bytes) -> int:
    sums = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    size = len(data)
    whole = (size - 1) // _BLOCK
    for at in range(0, whole * _BLOCK, _BLOCK):
        for n in range(_BLOCK // _STRIPE):
            _accumulate(sums, data, at + n * _STRIPE, n * 8)
        for i, key in enumerate(_EIGHT.unpack_from(_SECRET, len(_SECRET) - _STRIPE)):
            sums[i] = (sums[i] ^ sums[i] >> 47 ^ key) * _P32_1 & _MASK
    at = whole * _BLOCK
    for n in range((size - 1 - at) // _STRIPE):
        _accumulate(sums, data, at + n * _STRIPE, n * 8)
    _accumulate(sums, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _P64_1
    for i in range(4):
        low = sums[2 * i] ^ _u64(_SECRET, 11 + 16 * i)
        total += _folded(low, sums[2 * i + 1] ^ _u64(_SECRET, 19 + 16 * i))
    return _avalanche(total)


def _accumulate(sums: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = _EIGHT.unpack_from(data, at)
    for i, key in enumerate(_EIGHT.unpack_from(_SECRET, secret_at)):
        mixed = values[i] ^ key
        sums[i ^ 1] = sums[i ^ 1] + values[i] & _MASK
        sums[i] = sums[i] + (mixed & _LOW) * (mixed >> 32) & _MASK


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    low = _u64(data, at) ^ _u64(_SECRET, secret_at)
    return _folded(low, _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _folded(left: int, right: int) -> int:
    product = left * right
    return product & _MASK ^ product >> 64


def _avalanche(value: int) -> int:
    value &= _MASK
    value = (value ^ value >> 37) * 0x165667919E3779F9 & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    value = (value ^ value >> 33) * _P64_2 & _MASK
    value = (value ^ value >> 29) * _P64_3 & _MASK
    return value ^ value >> 32


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")
