"""The parts of the cleaner: keys, records, groups and fillers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from nodes.log.cleaning.offset_map import (
    BYTES_PER_BATCH,
    BYTES_PER_KEY,
    BYTES_PER_RECORD,
    GONE,
    STAYS,
    TOMBSTONE,
    OffsetMap,
    Portion,
)
from nodes.log.cleaning.spans import (
    Keys,
    digest,
    keep_records,
    latest_delta,
    no_keys,
    read_keys,
    shifted,
)
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
    end = len(encoded)
    found, last_delta = no_keys(), len(records) - 1
    at = read_keys(found, encoded, HEADER_BYTES, 1, end=end, last_delta=last_delta)
    at = read_keys(found, encoded, at, last_delta, end=end, last_delta=last_delta)
    assert at == end
    assert found.deltas == [record.offset for record in expected]
    assert found.keys == [represented(record.key) for record in expected]
    tombstones = [number for number, each in enumerate(records) if each.value is None]
    assert found.tombstones == tombstones
    fates = bytes(data.draw(st.lists(st.integers(0, 2), min_size=70, max_size=70)))
    kept: list[bytes] = []
    assert keep_records(kept, body, 0, found.sizes, fates[: len(records)]) == len(body)
    staying = [record for record in expected if fates[record.offset]]
    assert records_in(encoded, kept) == staying
    if kept:
        most = max(record.timestamp for record in expected) - base
        assert base + latest_delta(kept, most) == max(record.timestamp for record in staying)
    later = [replace(record, timestamp=record.timestamp + 1000) for record in staying]
    assert records_in(encoded, [shifted(record, 1000) for record in kept]) == later


def represented(key: bytes | None) -> bytes | None:
    """A key as the map has it."""
    return digest(key) if key is not None and len(key) >= 31 else key


def records_in(encoded: bytes, records: Sequence[bytes]) -> list[Record]:
    """Decode encoded records of a batch."""
    header = read_header(encoded)._replace(record_count=len(records))
    return decode_records(assemble(header, b"".join(records)))


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_stay_within_the_data(data: bytes) -> None:
    found, kept = no_keys(), list[bytes]()
    try:
        end = read_keys(found, data, 0, 3, end=len(data), last_delta=1 << 20)
    except CorruptBatch:
        return
    assert len(found.keys) == 3
    assert sum(found.sizes) == end <= len(data)
    assert keep_records(kept, data, 0, found.sizes, bytes([STAYS]) * 3) == end
    assert b"".join(kept) == data[:end]
    latest_delta(kept, 0)


def test_record_does_not_reach_into_the_next_batch() -> None:
    """A window of the log has more than one batch."""
    encoded = encode_batch([Record(key=b"k", value=b"v")], timestamp_ms=0)
    with pytest.raises(CorruptBatch, match="beyond its batch"):
        read_keys(no_keys(), encoded * 2, HEADER_BYTES, 1, end=len(encoded) - 1, last_delta=0)


# --- the offset map


def keys_of(*keys: bytes | None, tombstones: Sequence[int] = (), first: int = 0) -> Keys:
    """Keys of neighbouring records of sizes 1, 2, ..., of which the first has this offset delta."""
    numbers = range(len(keys))
    deltas, sizes = [first + number for number in numbers], [1 + number for number in numbers]
    return Keys(deltas, list(keys), sizes, list(tombstones))


@pytest.fixture(params=[1000, 1 << 20], ids=["one dictionary", "many dictionaries"])
def records(request: pytest.FixtureRequest) -> int:
    """How many records the dirty part may have: the map has one dictionary for few of them."""
    count: int = request.param
    return count


def map_for(records: int, budget: int, start: int = 0) -> OffsetMap:
    """A map for so many records from `start` on, in so many bytes."""
    return OffsetMap(Offset(start), Offset(start + records), budget)


def portion_of(start: int, *batches: tuple[BatchHeader, Keys]) -> Portion:
    """A portion of these batches, of a dirty part from `start` on."""
    portion = Portion(Offset(start))
    for header, found in batches:
        portion.begin(header)
        put(portion, found)
        portion.reach(header.last_offset)
    return portion


def put(portion: Portion, found: Keys) -> None:
    """Put records into the last batch of a portion."""
    number = len(portion.found.keys)
    portion.found.deltas.extend(found.deltas)
    portion.found.keys.extend(found.keys)
    portion.found.sizes.extend(found.sizes)
    portion.found.tombstones.extend(number + each for each in found.tombstones)
    portion.leave_out_clean(number)


def add(offsets: OffsetMap, header: BatchHeader, found: Keys) -> bool:
    """Add a batch."""
    return offsets.add(portion_of(offsets.start, (header, found)))


def fates_in(offsets: OffsetMap, header: BatchHeader) -> bytes | None:
    """The fates of a batch that the map remembers."""
    remembered = offsets.remembered(header)
    return None if remembered is None else bytes(remembered[0])


def decide(offsets: OffsetMap) -> None:
    """Set the fates of all records of the map."""
    assert sum(offsets.decide()) == len(offsets)


def test_the_last_record_of_each_key_stays(records: int) -> None:
    offsets = map_for(records, 1000 * BYTES_PER_KEY, start=100)
    assert add(offsets, header(100, 6), keys_of(b"clean", b"", None, b"a", b"b", b"a"))
    assert add(offsets, header(106, 3), keys_of(b"b", b"c", b"c", tombstones=(0, 1)))
    decide(offsets)
    assert len(offsets) == 5
    assert fates_in(offsets, header(100, 6)) == bytes([STAYS, STAYS, GONE, GONE, GONE, STAYS])
    assert fates_in(offsets, header(106, 3)) == bytes([TOMBSTONE, GONE, STAYS])
    remembered = offsets.remembered(header(106, 3))
    assert remembered is not None
    assert list(remembered[1]) == [1, 2, 3]
    assert fates_in(offsets, header(109, 2)) is None


def test_records_below_the_dirty_part_are_looked_up(records: int) -> None:
    """None of them is newer than a record of the map."""
    offsets = map_for(records, 1000 * BYTES_PER_KEY, start=100)
    found = keys_of(b"a", b"b" * 40, None, b"c", b"a", b"b" * 40, tombstones=(0, 3, 5))
    straddling = header(96, 6)
    assert add(offsets, straddling, found)
    decide(offsets)
    assert len(offsets) == 2
    assert fates_in(offsets, straddling) is None
    fates = offsets.look_up(straddling, found, 0)
    assert fates == bytes([GONE, GONE, GONE, TOMBSTONE, STAYS, TOMBSTONE])
    below = offsets.look_up(header(90, 3), keys_of(b"a", b"c", None), 0)
    assert below == bytes([GONE, STAYS, GONE])


def test_portions_of_a_batch_are_added_and_looked_up_one_by_one(records: int) -> None:
    offsets = map_for(records, 1000 * BYTES_PER_KEY)
    batch, first, second = header(0, 4), keys_of(b"a", b"b"), keys_of(b"a", b"c", first=2)
    portion = Portion(Offset(0))
    portion.begin(batch)
    put(portion, first)
    assert offsets.add(portion)
    put(portion, second)
    portion.reach(batch.last_offset)
    assert offsets.add(portion)
    assert offsets.latest_offset == 3
    decide(offsets)
    assert fates_in(offsets, batch) == bytes([GONE, STAYS, STAYS, STAYS])
    looked_up = offsets.look_up(batch, first, 0) + offsets.look_up(batch, second, 2)
    assert looked_up == fates_in(offsets, batch)


def test_batch_that_was_not_read_for_the_map_stays_as_it_is(records: int) -> None:
    """Also if it is not above the offsets that were read."""
    offsets = map_for(records, 1000 * BYTES_PER_KEY)
    portion = portion_of(0, (header(0, 1), keys_of(b"a")))
    portion.reach(Offset(10))
    assert offsets.add(portion)
    decide(offsets)
    found = keys_of(b"a", None, b"b", tombstones=(0,))
    assert offsets.look_up(header(1, 3), found, 0) == bytes([STAYS] * 3)


def test_full_map_says_up_to_where_it_is_complete(records: int) -> None:
    """What it did not take stays, also a tombstone: the map does not have its key."""
    offsets = map_for(records, 2 * BYTES_PER_KEY + 50)
    found = keys_of(b"a", b"a", b"b", b"c", b"a", tombstones=(2, 3))
    assert not add(offsets, header(10, 5), found)
    decide(offsets)
    assert (len(offsets), offsets.latest_offset) == (2, 12)
    assert fates_in(offsets, header(10, 5)) is None
    fates = offsets.look_up(header(10, 5), found, 0)
    assert fates == bytes([GONE, STAYS, TOMBSTONE, STAYS, STAYS])


def test_fates_and_sizes_need_memory_too(records: int) -> None:
    """A log of one key is not read without end."""
    offsets = map_for(records, 10 * BYTES_PER_KEY)
    batches = 0
    while add(offsets, header(20 * batches, 20), keys_of(*[b"a"] * 20)):
        batches += 1
    room = 8 * BYTES_PER_KEY  # beside the one key and another
    assert batches == room // (20 * BYTES_PER_RECORD + BYTES_PER_BATCH)


def test_full_map_ends_inside_of_a_portion(records: int) -> None:
    """Where it ends does not depend on the portions; batches without keys are reached, too."""
    batches = []
    for n in range(40):
        batches.append((header(4 * n, 3), keys_of(b"%d" % n, b"%d" % (n // 2), b"x")))
        batches.append((header(4 * n + 3, 1), keys_of()))
    ends = set()
    for size in (1, 2, 7, 80):
        offsets, complete = map_for(records, 20 * BYTES_PER_KEY), True
        for first in range(0, 80, size):
            complete = complete and offsets.add(portion_of(0, *batches[first : first + size]))
        decide(offsets)
        fates = tuple(fates_in(offsets, header) for header, _ in batches)
        ends.add((complete, offsets.latest_offset, len(offsets), fates))
    assert len(ends) == 1
    assert not complete


def test_map_that_is_full_between_two_portions_of_a_batch_has_the_first(records: int) -> None:
    """Otherwise the next cleaning would begin with the same batch, and be no better."""
    offsets, portion = map_for(records, 2 * BYTES_PER_KEY + 50), Portion(Offset(0))
    portion.begin(header(0, 4))
    put(portion, keys_of(b"a", b"b"))
    assert offsets.add(portion)
    put(portion, keys_of(b"c", b"d", first=2))
    assert not offsets.add(portion)
    assert offsets.latest_offset == 1


def test_offsets_beyond_their_batch_are_refused() -> None:
    encoded = encode_batch([Record(key=b"k", value=b"v")] * 100, timestamp_ms=0)
    for last_delta in (98, 0):
        with pytest.raises(CorruptBatch, match="delta"):
            read_keys(
                no_keys(), encoded, HEADER_BYTES, 100, end=len(encoded), last_delta=last_delta
            )
    with pytest.raises(CorruptBatch, match="offsets"):
        Portion(Offset(0)).begin(filler(Offset(3), Offset(1 << 30), Epoch(1)))


def test_key_that_equals_another_keys_digest_is_another_key() -> None:
    """A digest has 31 bytes, and a key of 31 bytes is digested too."""
    long = [b"%040d" % number for number in range(1000)]
    digests = [digest(key) for key in long]
    encoded = encode_batch([Record(key=key) for key in long + digests], timestamp_ms=0)
    found = no_keys()
    read_keys(found, encoded, HEADER_BYTES, 2000, end=len(encoded), last_delta=1999)
    assert found.keys[:1000] == digests
    assert len(set(found.keys)) == 2000


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
