"""The parts of the cleaner: keys, records, groups and fillers."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.ids import Epoch, Offset
from nodes.log.batch import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    decode_records,
    encode_batch,
    read_header,
)
from nodes.log.cleaning.fillers import Fillers, filler, from_offset
from nodes.log.cleaning.grouping import grouped
from nodes.log.cleaning.offset_map import BYTES_PER_KEY, OffsetMap
from nodes.log.cleaning.spans import read_spans
from nodes.log.errors import CorruptBatch, OffsetGap
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import batch, content, open_log
from tests.support.nodes.cleaning import COMPACTED, keyed

BYTES = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.builds(Record, timestamp=st.integers(0, 2**60), key=BYTES, value=BYTES),
    min_size=1,
    max_size=70,
)


# --- records


@given(RECORDS)
def test_spans_say_what_decoding_says(records: list[Record]) -> None:
    encoded = encode_batch(records, timestamp_ms=0)
    body, base = encoded[HEADER_BYTES:], read_header(encoded).base_timestamp
    first, at = read_spans(body, 0, 1)
    spans, end = read_spans(body, at, len(records) - 1)
    assert end == len(body)
    for span, record in zip(first + spans, decode_records(encoded), strict=True):
        assert (span[2], span[5], span[6]) == (record.offset, record.key, record.value is not None)
        assert base + span[3] == record.timestamp


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_stay_within_the_data(data: bytes) -> None:
    try:
        spans, end = read_spans(data, 0, 3)
    except CorruptBatch:
        return
    assert len(spans) == 3
    assert end <= len(data)


# --- the offset map


def spans_of(*keys: bytes | None) -> list[tuple[int, int, int, int, int, bytes | None, bool]]:
    return [(0, 0, number, 0, 0, key, True) for number, key in enumerate(keys)]


def test_map_has_the_last_offset_of_each_key() -> None:
    offsets = OffsetMap(10 * BYTES_PER_KEY)
    long = b"long" * 20
    keys = (b"clean", long, None, b"a", b"b", b"a")
    assert offsets.add(spans_of(*keys), Offset(100), Offset(101))
    found = [offsets.last_offset(key) for key in (b"clean", long, b"a", b"b", b"c")]
    assert found == [-1, 101, 105, 104, -1]
    assert (len(offsets), offsets.latest_offset) == (3, 105)


def test_full_map_says_up_to_where_it_is_complete() -> None:
    offsets = OffsetMap(2 * BYTES_PER_KEY)
    assert not offsets.add(spans_of(b"a", b"a", b"b", b"c"), Offset(10), Offset(0))
    assert (len(offsets), offsets.latest_offset) == (2, 12)


def test_key_that_equals_another_keys_digest_is_another_key() -> None:
    """A digest has 31 bytes, and a key of 31 bytes is digested too."""
    offsets = OffsetMap(1000 * BYTES_PER_KEY)
    offsets.add(spans_of(*(b"%040d" % number for number in range(1000))), Offset(0), Offset(0))
    digests = [key for shard in offsets._shards for key in shard]
    assert len(digests) == 1000
    assert {offsets.last_offset(digest) for digest in digests} == {-1}


# --- groups


@dataclass
class Extent:
    """A segment."""

    size: int
    base_offset: Offset
    next_offset: Offset


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([100], [1]),
        ([50, 50, 50], [2, 1]),
        ([50, 51, 49], [1, 2]),
        ([0, 0, 100, 0], [4]),
        ([300, 10, 10], [1, 2]),
    ],
)
def test_groups_are_as_large_as_a_segment_may_be(sizes: list[int], groups: list[int]) -> None:
    segments = [Extent(size, Offset(n), Offset(n + 1)) for n, size in enumerate(sizes)]
    assert [len(group) for group in grouped(segments, 100)] == groups


def test_group_is_within_the_range_of_the_index() -> None:
    """Its relative offsets have 31 bits."""
    ends = [0, 2**31 - 1, 2**31, 2**31 + 5]
    segments = [Extent(1, Offset(a), Offset(b)) for a, b in pairwise(ends)]
    assert [len(group) for group in grouped(segments, 100)] == [2, 1]


# --- fillers


def header(base: int, count: int, *, epoch: int = 1, stamp: int = 5) -> BatchHeader:
    return read_header(batch(count, base_offset=base, epoch=epoch, timestamp_ms=stamp))


def test_neighbouring_removed_batches_get_one_filler() -> None:
    fillers = Fillers()
    assert not fillers.remove(header(10, 2, stamp=7))
    assert not fillers.remove(header(12, 3, stamp=4))
    got = read_header(fillers.take())
    assert (got.base_offset, got.next_offset, got.partition_leader_epoch) == (10, 15, 1)
    assert (got.base_timestamp, got.max_timestamp, got.record_count) == (4, 7, 0)
    assert got.is_filler
    assert not fillers.take()


def test_each_leader_epoch_has_its_filler() -> None:
    fillers = Fillers()
    fillers.remove(header(0, 2))
    assert read_header(fillers.remove(header(2, 2, epoch=2))).next_offset == 2
    assert read_header(fillers.take()).partition_leader_epoch == 2


def test_filler_is_within_the_range_of_its_offset_delta() -> None:
    fillers = Fillers()
    fillers.remove(filler(Offset(0), Offset(2**31 - 1), Epoch(1)))
    assert not fillers.remove(filler(Offset(2**31 - 1), Offset(2**31), Epoch(1)))
    assert read_header(fillers.remove(header(2**31, 1))).last_offset == 2**31 - 1


def test_follower_takes_the_rest_of_a_filler_that_begins_before_its_end() -> None:
    """The leader was cleaned again after the follower had copied its first part. Any other batch
    that begins before the end is refused.
    """
    log = open_log(MemoryDisk(), config=COMPACTED)
    log.append_as_follower(batch(3, base_offset=0, epoch=1))
    empty = Fillers()
    empty.remove(header(1, 5))
    sent = empty.take() + keyed((b"a", b"1"), base_offset=6, epoch=1)
    log.append_as_follower(sent)
    assert [read_header(b).base_offset for b in content(log)] == [0, 3, 6]
    assert log.end_offset == 7
    with pytest.raises(OffsetGap):
        log.append_as_follower(batch(3, base_offset=6, epoch=1))
    damaged = bytearray(from_offset(sent, read_header(sent), Offset(5)))
    damaged[30] ^= 1
    with pytest.raises(CorruptBatch):
        log.append_as_follower(bytes(damaged))
