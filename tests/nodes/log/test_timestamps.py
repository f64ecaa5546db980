"""Lookups by time agree with a search through all records."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodes.ids import Epoch, Offset
from nodes.log.batch import HEADER_BYTES, Record, assemble, encode_batch, read_header
from nodes.log.compression import GZIP, compress
from nodes.log.config import LogConfig
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import open_log

TIMES = st.integers(1, 8)
BATCHES = st.lists(st.lists(TIMES, min_size=1, max_size=3), min_size=1, max_size=12)
"""The times of the records of each batch."""
INTERVALS = st.sampled_from([0, 150, 300, 1000])
"""Values of index.interval.bytes. A batch has 70 to 90 bytes."""


@settings(max_examples=300, deadline=None)
@given(BATCHES, st.integers(0, 36), st.integers(150, 500))
def test_lookups_by_time_find_what_a_search_finds(
    batches: list[list[int]], start: int, segment_bytes: int
) -> None:
    """In any order of times, in segments of any size, from any start of the log.

    A log that began inside a batch, behind the record with the largest timestamp, once answered the
    batch's last offset with that timestamp.
    """
    log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=segment_bytes))
    stamps: list[int] = []
    for times in batches:
        records = [Record(timestamp=stamp) for stamp in times]
        log.append_as_leader(encode_batch(records, timestamp_ms=times[0]), Epoch(0))
        stamps += times
    start = min(start, len(stamps))
    log.advance_start(Offset(start))
    left = [(offset, stamp) for offset, stamp in enumerate(stamps) if offset >= start]
    for wanted in range(10):
        first = next(((o, s) for o, s in left if s >= wanted), None)
        assert log.offset_for_timestamp(wanted) == first
    most = max((s for _, s in left), default=-1)
    newest = next(((o, s) for o, s in left if s == most), (-1, -1))
    assert log.max_timestamp() == newest


@settings(max_examples=300, deadline=None)
@given(
    st.lists(TIMES, min_size=8, max_size=12),
    INTERVALS,
    st.integers(1, 5),
    INTERVALS,
    st.lists(TIMES, max_size=3),
)
@example([*[1] * 6, 5, 1, 1, 8], 300, 1, 0, [])
def test_lookups_by_time_after_a_restart_and_a_truncation(
    times: list[int], before: int, lost: int, after: int, later: list[int]
) -> None:
    """Also if the broker indexes more densely since the restart.

    The time that is written at a close was thought to cover offset index entries before it. A
    truncation removed it, and what these entries then said about times was wrong.
    """
    disk = MemoryDisk()
    log = open_log(disk, config=LogConfig(index_interval_bytes=before))
    for stamp in times:
        log.append_as_leader(encode_batch([Record(timestamp=stamp)], timestamp_ms=stamp), Epoch(0))
    log.close()
    log = open_log(disk, config=LogConfig(index_interval_bytes=after), clean=True)
    log.truncate_to(Offset(len(times) - lost))
    for stamp in later:
        log.append_as_leader(encode_batch([Record(timestamp=stamp)], timestamp_ms=stamp), Epoch(0))
    stamps = list(enumerate(times[:-lost] + later))
    for wanted in range(10):
        first = next(((o, s) for o, s in stamps if s >= wanted), None)
        assert log.offset_for_timestamp(wanted) == first
    most = max(s for _, s in stamps)
    assert log.max_timestamp() == next((o, s) for o, s in stamps if s == most)


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_compressed_batch_is_opened(codec: int) -> None:
    """As Kafka does it since 3.7.1 and 3.8 (KAFKA-16310)."""
    plain = encode_batch([Record(timestamp=stamp) for stamp in (5, 9, 7, 9)], timestamp_ms=5)
    header = read_header(plain).with_compression(codec)
    log = open_log(MemoryDisk(), config=LogConfig())
    log.append_as_leader(assemble(header, compress(codec, plain[HEADER_BYTES:])), Epoch(0))
    assert log.max_timestamp() == (1, 9)
    assert [log.offset_for_timestamp(ms) for ms in (5, 6, 9, 10)] == [(0, 5), (1, 9), (1, 9), None]


def test_a_batch_that_cannot_be_decompressed_is_told_as_a_whole() -> None:
    """A producer may have sent anything behind the right first bytes."""
    plain = encode_batch([Record(timestamp=stamp) for stamp in (5, 9, 7)], timestamp_ms=5)
    header = read_header(plain).with_compression(GZIP)
    records = compress(GZIP, plain[HEADER_BYTES:])
    log = open_log(MemoryDisk(), config=LogConfig())
    log.append_as_leader(assemble(header, records[:12] + bytes(len(records) - 12)), Epoch(0))
    assert log.max_timestamp() == (0, 9)
    assert log.offset_for_timestamp(6) == (0, 9)
