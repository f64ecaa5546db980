"""Keys and values of records, against the reader of whole records."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.ids import Offset
from nodes.log.batch import HEADER_BYTES, Record, decode_records, encode_batch, read_header
from nodes.log.errors import CorruptBatch
from nodes.log.key_values import encode_key_values, read_key_values

RECORDS = [
    Record(key=b"k", value=b"v", timestamp=1000),
    Record(key=None, value=b"v" * 300, timestamp=900),
    Record(key=b"k" * 100, value=None, headers=(("name", b"x"), ("other", None)), timestamp=10**12),
]


_BYTES = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=70)


@given(
    records=st.lists(st.tuples(_BYTES, _BYTES), min_size=1, max_size=70),
    timestamp_ms=st.integers(0, 2**62),
    producer=st.none() | st.tuples(st.integers(0, 2**62), st.integers(0, 2**15 - 1)),
)
def test_keys_and_values_are_encoded_as_records(
    records: list[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    producer: tuple[int, int] | None,
) -> None:
    """Byte for byte, also in a transaction, and with lengths of one and two bytes."""
    producer_id, producer_epoch = producer or (-1, -1)
    transactional = producer is not None
    encoded = encode_key_values(
        records,
        timestamp_ms,
        transactional=transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    assert encoded == encode_batch(
        [Record(key=key, value=value) for key, value in records],
        timestamp_ms=timestamp_ms,
        transactional=transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def test_keys_and_values_are_those_of_the_records() -> None:
    """With headers, without key or value, with long ones, and with times in any order."""
    prefix = b"before"
    batch = encode_batch(RECORDS, base_offset=Offset(7), timestamp_ms=1)
    data = prefix + batch
    header = read_header(data, len(prefix))
    found = [
        (header.base_offset + delta, header.base_timestamp + stamp, key, value)
        for delta, stamp, key, value in read_key_values(data, len(prefix), header)
    ]
    assert found == [(r.offset, r.timestamp, r.key, r.value) for r in decode_records(batch)]


@pytest.mark.parametrize("seed", range(50))
def test_damaged_records_do_not_parse(seed: int) -> None:
    """Or they have other content; nothing else is raised."""
    rng = random.Random(seed)
    batch = bytearray(encode_batch(RECORDS, timestamp_ms=1))
    for _ in range(3):
        batch[rng.randrange(HEADER_BYTES, len(batch))] = rng.randrange(256)
    damaged = bytes(batch[: rng.randrange(HEADER_BYTES, len(batch) + 1)])
    try:
        read_key_values(damaged, 0, read_header(damaged))
    except CorruptBatch:
        return


def test_compressed_records_are_refused() -> None:
    """Brokers write their own batches uncompressed."""
    batch = bytearray(encode_batch(RECORDS, timestamp_ms=1))
    batch[22] |= 1
    with pytest.raises(CorruptBatch, match="codec 1"):
        read_key_values(bytes(batch), 0, read_header(bytes(batch)))
