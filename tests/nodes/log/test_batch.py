"""Record batches v2: headers, CRCs, encoding."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.ids import Epoch, Offset
from nodes.log.batch import (
    BatchHeader,
    Record,
    check_crc,
    decode_records,
    encode_batch,
    iter_batches,
    patch,
    read_header,
)
from nodes.log.errors import CorruptBatch
from tests.support.nodes.batches import batch

maybe_bytes = st.none() | st.binary(max_size=40)
records = st.lists(
    st.builds(
        Record,
        timestamp=st.integers(0, 2**48),
        key=maybe_bytes,
        value=maybe_bytes,
        headers=st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=5,
)


@given(records, st.integers(0, 2**62), st.integers(-1, 2**31 - 1))
def test_an_encoded_batch_is_decoded_again(
    given_records: list[Record], base: int, epoch: int
) -> None:
    """Records survive the round trip, and the header describes them."""
    data = encode_batch(
        given_records, base_offset=Offset(base), leader_epoch=Epoch(epoch), timestamp_ms=0
    )
    header = read_header(data)
    check_crc(data, 0, header)
    decoded = decode_records(data)
    assert [(r.timestamp, r.key, r.value, r.headers) for r in decoded] == [
        (r.timestamp, r.key, r.value, r.headers) for r in given_records
    ]
    assert [r.offset for r in decoded] == list(range(base, base + len(given_records)))
    assert header.size == len(data)
    assert header.next_offset == base + len(given_records)
    assert header.max_timestamp == max(r.timestamp for r in given_records)


def test_patching_leaves_the_crc_valid() -> None:
    """Base offset and leader epoch lie outside the CRC; nothing else changes."""
    data = bytearray(batch(3))
    before = read_header(data)
    patch(data, 0, base_offset=Offset(77), leader_epoch=Epoch(5))
    after = read_header(data)
    check_crc(data, 0, after)
    assert after == before._replace(base_offset=77, partition_leader_epoch=5)


@given(st.integers(17, 200), st.integers(0, 7))
def test_any_flipped_bit_that_the_crc_covers_is_found(position: int, bit: int) -> None:
    """From the CRC field on, one flipped bit makes the batch corrupt."""
    data = bytearray(batch(20))
    data[position] ^= 1 << bit
    with pytest.raises(CorruptBatch):
        check_crc(data, 0, read_header(data))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(16, b"\x01", "magic 1"), (8, b"\0\0\0\x01", "length 1"), (0, b"\xff" * 8, "base offset -1")],
)
def test_nonsense_headers_are_refused(at: int, value: bytes, message: str) -> None:
    """What cannot begin a batch is corrupt, and the error says why."""
    data = bytearray(batch())
    data[at : at + len(value)] = value
    with pytest.raises(CorruptBatch, match=message):
        read_header(data)


def test_a_buffer_too_short_for_a_header_is_refused() -> None:
    """Sixty bytes are no header."""
    with pytest.raises(CorruptBatch, match="60 bytes"):
        read_header(batch()[:60])


def test_iteration_stops_before_an_incomplete_batch() -> None:
    """A fetch response may end in the middle of a batch."""
    first, second = batch(2), batch(3)
    whole = [pos for pos, _ in iter_batches(first + second)]
    torn = [pos for pos, _ in iter_batches((first + second)[:-1])]
    assert (whole, torn) == ([0, len(first)], [0])
    assert list(iter_batches(first[:30])) == []


@pytest.mark.parametrize(
    ("base_sequence", "count", "last"),
    [(-1, 3, -1), (0, 1, 0), (5, 3, 7), (2**31 - 2, 2, 2**31 - 1), (2**31 - 1, 3, 1)],
)
def test_sequences_wrap_after_the_largest_int32(base_sequence: int, count: int, last: int) -> None:
    """Sequence 2^31-1 is followed by 0; no sequence stays none."""
    header = read_header(batch(count, producer=(1, 0, base_sequence)))
    assert header.last_sequence == last


def test_compressed_batches_are_not_decoded() -> None:
    """The broker never decompresses."""
    data = bytearray(batch())
    data[22] |= 2
    assert read_header(data).compression == 2
    with pytest.raises(CorruptBatch, match="codec 2"):
        decode_records(data)


@given(st.data())
def test_mangled_records_raise_nothing_but_corrupt_batch(data: st.DataObject) -> None:
    """Whatever the record bytes are, decoding returns or raises CorruptBatch."""
    mangled = bytearray(batch(3))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(61, len(mangled) - 1))
        mangled[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBatch):
        decode_records(mangled)


def test_control_and_transaction_bits() -> None:
    """The attribute bits are where Kafka has them."""
    data = encode_batch([Record(key=b"k")], timestamp_ms=0, control=True)
    header: BatchHeader = read_header(data)
    assert header.is_control
    assert not header.is_transactional
    assert header._replace(attributes=0x10).is_transactional
