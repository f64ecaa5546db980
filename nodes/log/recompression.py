"""Batches in another codec: a producer's by its topic's compression.type, as in Kafka, and any one
to be read. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from nodes.log.batch import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    Record,
    assemble,
    decode_records,
    read_header,
)
from nodes.log.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress
from nodes.log.config import LogConfig
from nodes.log.errors import MessageTooLarge

CODECS: Final[Mapping[str, int | None]] = MappingProxyType(
    {
        "producer": None,
        "uncompressed": NONE,
        "gzip": GZIP,
        "snappy": SNAPPY,
        "lz4": LZ4,
        "zstd": ZSTD,
    }
)
"""The values of compression.type. With None a batch stays as its producer sent it."""


def recompressed(batch: bytes, header: BatchHeader, config: LogConfig) -> tuple[bytes, BatchHeader]:
    """Return a valid batch and its header as the topic wants them; offsets and times are kept.

    Raises CorruptBatch, and MessageTooLarge if it is too large now.
    """
    codec = config.compression
    if codec is None or codec == header.compression:
        return batch, header
    records = decompress(header.compression, batch[HEADER_BYTES : header.size])
    new = assemble(header.with_compression(codec), compress(codec, records))
    if len(new) > config.max_message_bytes:
        raise MessageTooLarge(
            f"{len(new)} bytes by compression.type, more than {config.max_message_bytes} allowed"
        )
    return new, read_header(new)


def decoded(buf: Buffer, pos: int = 0) -> list[Record]:
    """Decode the records of the batch at `pos`, compressed or not.

    Raises CorruptBatch if the records do not parse; does not check the CRC.
    """
    header = read_header(buf, pos)
    if not header.compression:
        return decode_records(buf, pos)
    records = decompress(header.compression, bytes(buf[pos + HEADER_BYTES : pos + header.size]))
    return decode_records(assemble(header.with_compression(NONE), records))
