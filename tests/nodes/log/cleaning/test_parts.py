"""The parts of the cleaner: keys, records, groups and fillers."""

from collections.abc import Sequence
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
    assemble,
    decode_records,
    encode_batch,
    read_header,
)
from nodes.log.cleaning.fillers import Fillers, as_filler, filler, from_offset
from nodes.log.cleaning.grouping import grouped
from nodes.log.cleaning.offset_map import BYTES_PER_KEY, GONE, STAYS, TOMBSTONE, OffsetMap
from nodes.log.cleaning.spans import Keys, read_keys, read_spans
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


@given(RECORDS, st.data())
def test_keys_and_spans_say_what_decoding_says(records: list[Record], data: st.DataObject) -> None:
    encoded = encode_batch(records, timestamp_ms=0)
    body, base = encoded[HEADER_BYTES:], read_header(encoded).base_timestamp
    expected = decode_records(encoded)
    first, at = read_keys(encoded, HEADER_BYTES, 1)
    rest, end = read_keys(encoded, at, len(records) - 1)
    assert end == len(encoded)
    assert first.deltas + rest.deltas == [record.offset for record in expected]
    assert first.keys + rest.keys == [record.key for record in expected]
    tombstones = first.tombstones + [number + 1 for number in rest.tombstones]
    assert tombstones == [number for number, each in enumerate(records) if each.value is None]
    fates = bytes(data.draw(st.lists(st.integers(0, 2), min_size=70, max_size=70)))
    spans, end = read_spans(body, 0, len(records), fates)
    assert end == len(body)
    staying = [record for record in expected if fates[record.offset]]
    for span, record in zip(spans, staying, strict=True):
        assert (base + span[2], span[4]) == (record.timestamp, record.value is not None)
        alone = assemble(read_header(encoded)._replace(record_count=1), body[span[0] : span[1]])
        assert decode_records(alone) == [record]


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_stay_within_the_data(data: bytes) -> None:
    try:
        found, end = read_keys(data, 0, 3)
        assert len(found.keys) == 3
        assert end <= len(data)
        assert read_spans(data, 0, 3, bytes([1]) * 3)[1] <= len(data)
    except CorruptBatch:
        return


# --- the offset map


def keys_of(*keys: bytes | None, tombstones: Sequence[int] = ()) -> Keys:
    return Keys(list(range(len(keys))), list(keys), list(tombstones))


def map_with(*keys: bytes | None, base: int = 0, start: int = 0, room: int = 1000) -> OffsetMap:
    """A map of one batch."""
    offsets = OffsetMap(Offset(start), room * BYTES_PER_KEY)
    offsets.begin(header(base, len(keys)))
    offsets.add(keys_of(*keys))
    return offsets


def test_the_last_record_of_each_key_stays() -> None:
    long = b"long" * 20
    offsets = map_with(b"clean", long, None, b"a", b"b", b"a", base=100, start=101)
    assert (len(offsets), offsets.latest_offset) == (3, 105)
    offsets.begin(header(106, 3))
    assert offsets.add(keys_of(b"b", b"c", b"c", tombstones=(0, 1)))
    assert offsets.fates(header(100, 6)) == bytes([GONE, STAYS, GONE, GONE, GONE, STAYS])
    assert offsets.fates(header(106, 3)) == bytes([TOMBSTONE, GONE, STAYS])
    assert offsets.fates(header(109, 2)) == bytes([STAYS, STAYS])


def test_records_below_the_dirty_part_are_looked_up() -> None:
    """None of them is newer than a record of the map."""
    offsets = OffsetMap(Offset(100), 1000 * BYTES_PER_KEY)
    offsets.begin(header(96, 6))
    found = keys_of(b"a", b"b" * 40, None, b"c", b"a", b"b" * 40, tombstones=(0, 3, 5))
    assert offsets.add(found)
    fates = offsets.fates(header(96, 6))
    offsets.look_up(found, Offset(96), fates)
    assert fates == bytes([GONE, GONE, GONE, TOMBSTONE, STAYS, TOMBSTONE])


def test_full_map_says_up_to_where_it_is_complete() -> None:
    """What it did not take stays."""
    offsets = OffsetMap(Offset(0), 2 * BYTES_PER_KEY + 40)
    offsets.begin(header(10, 5))
    assert not offsets.add(keys_of(b"a", b"a", b"b", b"c", b"a", tombstones=(2, 3)))
    assert (len(offsets), offsets.latest_offset) == (2, 12)
    assert offsets.fates(header(10, 5)) == bytes([GONE, STAYS, TOMBSTONE, STAYS, STAYS])


def test_fates_need_memory_too() -> None:
    """A log of one key is not read without end."""
    offsets = OffsetMap(Offset(0), 10 * BYTES_PER_KEY)
    batches = 0
    while True:
        offsets.begin(header(100 * batches, 100))
        if not offsets.add(keys_of(*[b"a"] * 100)):
            break
        batches += 1
    assert batches == 12


def test_offsets_beyond_their_batch_are_refused() -> None:
    offsets = map_with(b"a")
    offsets.begin(header(1, 2))
    with pytest.raises(CorruptBatch, match="delta"):
        offsets.add(keys_of(b"a", b"b", b"c"))
    with pytest.raises(CorruptBatch, match="offsets"):
        offsets.begin(filler(Offset(3), Offset(1 << 30), Epoch(1)))


def test_key_that_equals_another_keys_digest_is_another_key() -> None:
    """A digest has 31 bytes, and a key of 31 bytes is digested too."""
    offsets = map_with(
        *(b"%040d" % number for number in range(1000)), base=2000, start=2000, room=1100
    )
    digests = [key for shard in offsets._shards for key in shard]
    assert len(digests) == 1000
    fates = offsets.fates(header(0, 1000))
    assert set(fates) == {GONE}
    offsets.look_up(keys_of(*digests), Offset(0), fates)
    assert set(fates) == {STAYS}


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
    got = fillers.take()
    assert got is not None
    assert (got.base_offset, got.next_offset, got.partition_leader_epoch) == (10, 15, 1)
    assert (got.base_timestamp, got.max_timestamp, got.record_count) == (4, 7, 0)
    assert got.is_filler
    assert not fillers.take()


def test_each_leader_epoch_has_its_filler() -> None:
    fillers = Fillers()
    fillers.remove(header(0, 2))
    first, second = fillers.remove(header(2, 2, epoch=2)), fillers.take()
    assert first is not None
    assert second is not None
    assert (first.next_offset, second.partition_leader_epoch) == (2, 2)


def test_filler_is_within_the_range_of_its_offset_delta() -> None:
    fillers = Fillers()
    fillers.remove(filler(Offset(0), Offset(2**31 - 1), Epoch(1)))
    assert not fillers.remove(filler(Offset(2**31 - 1), Offset(2**31), Epoch(1)))
    complete = fillers.remove(header(2**31, 1))
    assert complete is not None
    assert complete.last_offset == 2**31 - 1


def test_follower_takes_the_rest_of_a_filler_that_begins_before_its_end() -> None:
    """The leader was cleaned again after the follower had copied its first part. Any other batch
    that begins before the end is refused.
    """
    log = open_log(MemoryDisk(), config=COMPACTED)
    log.append_as_follower(batch(3, base_offset=0, epoch=1))
    sent = assemble(as_filler(header(1, 5))) + keyed((b"a", b"1"), base_offset=6, epoch=1)
    log.append_as_follower(sent)
    assert [read_header(b).base_offset for b in content(log)] == [0, 3, 6]
    assert log.end_offset == 7
    with pytest.raises(OffsetGap):
        log.append_as_follower(batch(3, base_offset=6, epoch=1))
    damaged = bytearray(from_offset(sent, read_header(sent), Offset(5)))
    damaged[30] ^= 1
    with pytest.raises(CorruptBatch):
        log.append_as_follower(bytes(damaged))
