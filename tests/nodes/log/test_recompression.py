"""The topic's codec in place of the producer's: compression.type."""

import dataclasses

import pytest

from nodes.ids import Epoch
from nodes.log.batch import HEADER_BYTES, assemble, check_crc, read_header
from nodes.log.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress
from nodes.log.errors import MessageTooLarge
from nodes.log.recompression import recompressed
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import SMALL, batch, content, open_log

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
PLAIN = batch(3, producer=(7, 1, 4), transactional=True, value=b"v" * 100)


def packed(codec: int) -> bytes:
    """PLAIN as a producer with this codec sends it."""
    header = read_header(PLAIN).with_compression(codec)
    return assemble(header, compress(codec, PLAIN[HEADER_BYTES:]))


@pytest.mark.parametrize("sent", CODECS)
@pytest.mark.parametrize("wanted", CODECS)
def test_a_batch_gets_the_codec_of_its_topic_and_keeps_everything_else(
    sent: int, wanted: int
) -> None:
    """Producer, sequence, times and records."""
    config = dataclasses.replace(SMALL, compression=wanted)
    data, header = recompressed(packed(sent), read_header(packed(sent)), config)
    assert header == read_header(data)
    check_crc(data, 0, header)
    assert header.compression == wanted
    assert decompress(wanted, data[HEADER_BYTES:]) == PLAIN[HEADER_BYTES:]
    fixed = {"attributes": 0, "batch_length": 0, "crc": 0}
    assert header._replace(**fixed) == read_header(PLAIN)._replace(**fixed)
    assert header.is_transactional


def test_a_leader_appends_with_the_codec_of_the_topic() -> None:
    """But not what a coordinator writes: it must be able to read it."""
    log = open_log(MemoryDisk(), config=dataclasses.replace(SMALL, compression=ZSTD))
    log.append_as_leader(batch(2, value=b"v" * 100), Epoch(0))
    log.append_as_leader(batch(2), Epoch(0), from_coordinator=True)
    assert [read_header(each).compression for each in content(log)] == [ZSTD, NONE]


def test_a_batch_that_becomes_too_large_is_refused() -> None:
    """max.message.bytes is about what is in the log."""
    sent = packed(GZIP)
    config = dataclasses.replace(SMALL, compression=NONE, max_message_bytes=len(PLAIN) - 1)
    with pytest.raises(MessageTooLarge):
        recompressed(sent, read_header(sent), config)
