"""The codecs of record batches: gzip, snappy, lz4 and zstd, as Kafka's clients write them.

Guarantees: what is compressed here can be read by every Kafka client. Decompressed data is bounded,
because a megabyte can be a gigabyte when it is decompressed.

Snappy data comes with or without the block header of snappy-java ("xerial"), and is written with
it: the Java client reads both, and so do the others. The Java client reads only lz4 frames of
independent blocks, so the frame is written here, and only its blocks by the library.
"""

import struct
import zlib
from typing import Final

import cramjam

from nodes.log.errors import CorruptBatch

NONE, GZIP, SNAPPY, LZ4, ZSTD = 0, 1, 2, 3, 4

MAX_DECOMPRESSED_BYTES: Final = 32 << 20

_GZIP_WINDOW: Final = 31
"""zlib's name for its largest window, with gzip's header and trailer."""
_TOO_SMALL: Final = "failed to write whole buffer"
_FIRST_GUESS: Final = 8
"""Text and JSON shrink to between a half and an eighth."""

_XERIAL: Final = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_BE_LENGTH: Final = struct.Struct(">i")

_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Magic, version 1 with independent blocks, blocks of 64 KB, checksum of these two bytes."""
_LZ4_BLOCK_BYTES: Final = 64 << 10
_LZ4_STORED: Final = 1 << 31
_LZ4_END: Final = bytes(4)
_LE_LENGTH: Final = struct.Struct("<I")


def decompress(codec: int, data: bytes, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress a batch's records. Raises CorruptBatch, also if they have more bytes than `limit`.

    The codec is numbered as in a batch's attributes; 0 returns the data itself.
    """
    try:
        match codec:
            case 0:
                return data
            case 1:
                return _gunzip(data, limit)
            case 2:
                return _unsnap(data, limit)
            case 3 | 4:
                return _decompress_frame(codec, data, limit)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise CorruptBatch(f"codec {codec}: {error}") from None
    raise CorruptBatch(f"codec {codec}, which does not exist")


def compress(codec: int, data: bytes) -> bytes:
    """Compress a batch's records, with the default level of Kafka's clients."""
    match codec:
        case 1:
            packer = zlib.compressobj(wbits=_GZIP_WINDOW)
            return packer.compress(data) + packer.flush()
        case 2:
            return _snap(data)
        case 3:
            return _lz4(data)
        case 4:
            return bytes(cramjam.zstd.compress(data, level=3))
    return data


def _gunzip(data: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
    unpacked = unpacker.decompress(data, limit + 1)
    if len(unpacked) > limit:
        raise _too_large(GZIP, limit)
    if not unpacker.eof:
        raise CorruptBatch(f"codec {GZIP}: the data ends too early")
    return unpacked


def _unsnap(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL[:8]):
        return _unsnap_block(data, limit)
    unpacked = bytearray()
    at = len(_XERIAL)
    while at < len(data):
        (size,) = _BE_LENGTH.unpack_from(data, at)
        at += _BE_LENGTH.size
        if not 0 <= size <= len(data) - at:
            raise CorruptBatch(f"codec {SNAPPY}: a block of {size} bytes")
        unpacked += _unsnap_block(data[at : at + size], limit - len(unpacked))
        at += size
    return bytes(unpacked)


def _unsnap_block(data: bytes, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > limit:
        raise _too_large(SNAPPY, limit)
    return bytes(cramjam.snappy.decompress_raw(data))


def _snap(data: bytes) -> bytes:
    packed = bytearray(_XERIAL)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        packed += _BE_LENGTH.pack(len(block)) + block
    return bytes(packed)


def _decompress_frame(codec: int, data: bytes, limit: int) -> bytes:
    """Decompress into a buffer that grows, because these formats need not say the size."""
    library = cramjam.lz4 if codec == LZ4 else cramjam.zstd
    size = min(max(_FIRST_GUESS * len(data), 1024), limit)
    while True:
        unpacked = bytearray(size)
        try:
            return bytes(unpacked[: library.decompress_into(data, unpacked)])
        except cramjam.DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise
        if size == limit:
            raise _too_large(codec, limit)
        size = min(_FIRST_GUESS * size, limit)


def _lz4(data: bytes) -> bytes:
    packed = bytearray(_LZ4_HEADER)
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            packed += _LE_LENGTH.pack(len(block)) + block
        else:
            packed += _LE_LENGTH.pack(len(plain) | _LZ4_STORED) + plain
    return bytes(packed + _LZ4_END)


def _too_large(codec: int, limit: int) -> CorruptBatch:
    return CorruptBatch(f"codec {codec}: more than {limit} bytes when decompressed")
