"""The codecs: what is compressed here is read by other people's code, and the other way round."""

import gzip
import warnings

import cramjam
import pytest

from nodes.log.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress
from nodes.log.errors import CorruptBatch

with warnings.catch_warnings():
    # kafka-python loads its schemas through a deprecated part of importlib.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import codec as kafka_python

TEXT = b"".join(b'{"key": %d, "value": "some text"}' % number for number in range(9000))
NOISE = gzip.compress(TEXT, mtime=0)
DATA = [b"", b"a", TEXT, NOISE]
CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
FOREIGN = {
    GZIP: (kafka_python.gzip_encode, kafka_python.gzip_decode),
    SNAPPY: (kafka_python.snappy_encode, kafka_python.snappy_decode),
    LZ4: (kafka_python.lz4_encode, kafka_python.lz4_decode),
}


@pytest.mark.parametrize("data", DATA, ids=len)
@pytest.mark.parametrize("codec", CODECS)
def test_compressed_data_is_what_it_was(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("data", DATA[1:], ids=len)
@pytest.mark.parametrize("codec", FOREIGN)
def test_data_is_exchanged_with_kafka_python(codec: int, data: bytes) -> None:
    encode, decode = FOREIGN[codec]
    assert decode(compress(codec, data)) == data
    assert decompress(codec, encode(data)) == data


def test_snappy_without_the_header_of_snappy_java_is_read() -> None:
    """librdkafka writes it so."""
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_lz4_frames_have_independent_blocks() -> None:
    """Kafka's Java client refuses any others."""
    assert compress(LZ4, TEXT)[4] == 0x60
    assert bytes(cramjam.lz4.decompress(compress(LZ4, NOISE))) == NOISE


@pytest.mark.parametrize("codec", CODECS[1:])
def test_data_beyond_the_limit_is_refused(codec: int) -> None:
    packed = compress(codec, bytes(100_000))
    assert len(decompress(codec, packed, 100_000)) == 100_000
    with pytest.raises(CorruptBatch, match="when decompressed"):
        decompress(codec, packed, 99_999)


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("cut", [1, 40, 10**9])
def test_incomplete_data_is_refused(codec: int, cut: int) -> None:
    packed = compress(codec, NOISE)
    with pytest.raises(CorruptBatch):
        decompress(codec, packed[:-cut] + b"?" * (cut > 1000))


def test_unknown_codec_is_refused() -> None:
    with pytest.raises(CorruptBatch):
        decompress(5, b"")
