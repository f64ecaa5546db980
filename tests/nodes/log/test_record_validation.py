"""Which batches of a producer a log takes: none that every consumer would stop at."""

import gzip
import struct
from dataclasses import replace

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from nodes.ids import Epoch
from nodes.log.batch import HEADER_BYTES, Record, decode_records, encode_batch
from nodes.log.compression import compress
from nodes.log.config import CompactionConfig
from nodes.log.errors import CorruptBatch, InvalidBatch
from nodes.log.record_validation import MAX_WALKED, MIN_RECORD_BYTES, check_records
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import SMALL, open_log

BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp=st.integers(-1, 2**62),
        key=BYTES,
        value=BYTES,
        headers=st.lists(st.tuples(st.text(max_size=9), BYTES), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=80,
)


def rewritten(batch: bytes, **changes: int | bytes) -> bytes:
    """The batch with other header fields or another body, and lengths and a CRC that are right."""
    names = ("attributes", "last_offset_delta", "base_timestamp", "max_timestamp", "producer_id",
             "producer_epoch", "base_sequence", "record_count")  # fmt: skip
    form = struct.Struct(">hiqqqhii")
    values = dict(zip(names, form.unpack_from(batch, 21), strict=True))
    body = changes.pop("body", batch[HEADER_BYTES:])
    assert isinstance(body, bytes)
    values.update(changes)
    checked = form.pack(*values.values()) + body
    head = struct.pack(">qiib", 0, 9 + len(checked), -1, 2)
    return head + struct.pack(">I", crc32c(checked)) + checked


def refused(batch: bytes, *, compacted: bool = False) -> bool:
    """Whether the log takes nothing of it."""
    config = replace(SMALL, compaction=CompactionConfig()) if compacted else SMALL
    log = open_log(MemoryDisk(), config=config)
    try:
        log.append_as_leader(batch, Epoch(1))
    except InvalidBatch:
        assert log.end_offset == 0
        return True
    return False


PLAIN = encode_batch([Record(key=b"k", value=b"v%d" % n) for n in range(3)], timestamp_ms=1)
BODY = PLAIN[HEADER_BYTES:]
FIRST = BODY[: 1 + (BODY[0] >> 1)]


@given(RECORDS)
def test_well_formed_records_pass(records: list[Record]) -> None:
    """Nulls, headers, any lengths, any times."""
    batch = encode_batch(records, timestamp_ms=5)
    check_records(batch, HEADER_BYTES, len(batch), 0, len(records))


@given(RECORDS, st.integers(0, 2**31), st.binary(min_size=1, max_size=6))
def test_accepted_batches_can_be_read(records: list[Record], at: int, new: bytes) -> None:
    """Bytes that are put anywhere into the records are refused, or the records can be decoded."""
    batch = bytearray(encode_batch(records, timestamp_ms=5))
    at = HEADER_BYTES + at % (len(batch) - HEADER_BYTES)
    batch[at : at + len(new)] = new
    changed = bytes(batch)
    try:
        check_records(changed, HEADER_BYTES, len(changed), 0, len(records))
    except InvalidBatch:
        return
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    try:
        read = decode_records(bytes(batch))
    except CorruptBatch as error:
        if "codec can't decode" in str(error):  # a header's name: what it says, nobody looks at
            return
        raise
    assert [record.offset for record in read] == list(range(len(records)))


@pytest.mark.parametrize(
    "changes",
    [
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"record_count": 4, "last_offset_delta": 3},
        {"record_count": 2, "last_offset_delta": 1},
        {"record_count": 0},
        {"record_count": -1},
        {"body": b""},
        {"body": b"garbage" * 9},
        {"body": BODY + b"\0"},
        {"body": BODY[:-1]},
        {"body": FIRST * 3},
        {"body": b"\xff" * 60},
        {"body": b"\x01" * 60},
        {"attributes": 5},
        {"attributes": 7},
        {"attributes": 1},
        {"attributes": 1, "body": gzip.compress(BODY, mtime=0)[:20], "record_count": 2**31 - 1,
         "last_offset_delta": 2**31 - 2},
        {"attributes": 3},
        {"attributes": 4},
        {"attributes": 2, "body": b""},
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": -1},
        {"producer_id": 0, "producer_epoch": 0, "base_sequence": -1},
    ],
    ids=str,
)  # fmt: skip
def test_a_batch_with_a_correct_crc_and_invalid_records_is_refused(
    changes: dict[str, int | bytes],
) -> None:
    """What Kafka refuses at its header, or at a walk through its records."""
    assert refused(rewritten(PLAIN, **changes))
    assert not refused(rewritten(PLAIN))


@pytest.mark.parametrize(
    ("codec", "body"),
    [(1, gzip.compress(BODY, mtime=0)), (2, b"\x2a" + BODY), (3, b"\x04\x22\x4d\x18" + BODY),
     (4, b"\x28\xb5\x2f\xfd" + BODY)],
)  # fmt: skip
def test_a_compressed_batch_must_begin_as_its_codec_requires(codec: int, body: bytes) -> None:
    """Nothing is decompressed."""
    assert not refused(rewritten(PLAIN, attributes=codec, body=body))


def test_at_most_max_walked_records_are_checked() -> None:
    """A batch of very many tiny records must not hold the loop: the rest of it is believed."""
    batch = encode_batch([Record()] * (MAX_WALKED + 10), timestamp_ms=1)
    check_records(batch + b"?", HEADER_BYTES, len(batch) + 1, 0, MAX_WALKED + 10)


@pytest.mark.parametrize("size", [0, 63, 64, 127, 8_191, 8_192, 20_000, 2_000_000])
def test_keys_and_values_may_have_any_size(size: int) -> None:
    """Their lengths, and that of the record, take one to four bytes."""
    records = [Record(key=b"k" * size), Record(value=b"v" * size), Record(key=b"")]
    batch = encode_batch(records, timestamp_ms=1)
    check_records(batch, HEADER_BYTES, len(batch), 0, len(records))


def test_records_that_are_not_walked_must_fit_into_the_batch() -> None:
    batch = encode_batch([Record()] * MAX_WALKED, timestamp_ms=1)
    most = (len(batch) - HEADER_BYTES) // MIN_RECORD_BYTES
    check_records(batch, HEADER_BYTES, len(batch), 0, most)
    with pytest.raises(InvalidBatch):
        check_records(batch, HEADER_BYTES, len(batch), 0, most + 1)


@pytest.mark.parametrize("codec", range(5))
def test_compacted_log_refuses_a_record_without_a_key(codec: int) -> None:
    """Any of the batch; an empty key is a key. A log that is not compacted takes all."""
    for keys, missing in ((b"abc", False), ([b"a", b"", b"c"], False), ([b"a", None], True)):
        records = [Record(key=k if k is None else bytes(k), value=b"v") for k in keys]
        plain = encode_batch(records, timestamp_ms=1)
        batch = rewritten(plain, attributes=codec, body=compress(codec, plain[HEADER_BYTES:]))
        assert refused(batch, compacted=True) == missing
        assert not refused(batch)


def test_compacted_log_refuses_what_cannot_be_decompressed() -> None:
    body = b"\x28\xb5\x2f\xfd" + BODY
    assert refused(rewritten(PLAIN, attributes=4, body=body), compacted=True)


def one_record(
    *,
    timestamp: bytes = b"\0",
    key: bytes = b"\x01",
    value: bytes = b"\x01",
    headers: bytes = b"\0",
) -> bytes:
    """The only record of a batch, from its parts as bytes; a zigzag varint of 1 is -1, for null."""
    record = b"\0" + timestamp + b"\0" + key + value + headers
    assert len(record) < 0x40
    return bytes([len(record) << 1]) + record


@pytest.mark.parametrize("null", [b"\x01", b"\x03", b"\x05"])
def test_any_negative_length_is_null(null: bytes) -> None:
    """-1, -2 and -3; as in Kafka's DefaultRecord. None has any bytes behind it."""
    for body in (one_record(key=null), one_record(value=null), one_record(key=null, value=null)):
        check_records(body, 0, len(body), 0, 1)


def test_a_timestamp_has_at_most_ten_bytes() -> None:
    """What 64 bits need."""
    body = one_record(timestamp=b"\x80" * 9 + b"\x01")
    check_records(body, 0, len(body), 0, 1)
    body = one_record(timestamp=b"\x80" * 10 + b"\x01")
    with pytest.raises(InvalidBatch, match="more than ten bytes"):
        check_records(body, 0, len(body), 0, 1)


def test_no_headers_may_be_written_in_two_bytes() -> None:
    """A varint may be longer than it needs to be."""
    body = one_record(headers=b"\x80\0")
    check_records(body, 0, len(body), 0, 1)


def test_a_length_has_at_most_five_bytes() -> None:
    """What 32 bits need."""
    body = one_record(key=b"\x82\x80\x80\x80\x00k")
    check_records(body, 0, len(body), 0, 1)
    body = one_record(key=b"\x82\x80\x80\x80\x80\x00k")
    with pytest.raises(InvalidBatch, match="more than five bytes"):
        check_records(body, 0, len(body), 0, 1)
