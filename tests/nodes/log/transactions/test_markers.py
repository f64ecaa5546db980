"""Transaction markers: Kafka's bytes, and what is none."""

import pytest

from nodes.log.batch import Record, decode_records, encode_batch, read_header
from nodes.log.transactions.markers import Marker, decode_marker, encode_marker


@pytest.mark.parametrize(("committed", "kind"), [(False, 0), (True, 1)])
def test_a_marker_has_kafkas_bytes(committed: bool, kind: int) -> None:
    """Key: version and type; value: version and coordinator epoch."""
    encoded = encode_marker(Marker(7, 3, 258, committed), timestamp_ms=1234)
    header = read_header(encoded)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert (header.is_control, header.is_transactional) == (True, True)
    (record,) = decode_records(encoded)
    assert record.key == bytes((0, 0, 0, kind))
    assert record.value == bytes((0, 0, 0, 0, 1, 2))
    assert record.timestamp == 1234


@pytest.mark.parametrize("committed", [False, True])
def test_a_marker_is_read_back(committed: bool) -> None:
    """Also from the middle of a buffer."""
    marker = Marker(7, 3, 11, committed)
    encoded = encode_marker(marker, timestamp_ms=1)
    assert decode_marker(encoded) == marker
    assert decode_marker(b"abc" + encoded, 3) == marker


def test_newer_versions_begin_with_the_same_fields() -> None:
    """As Kafka reads them."""
    record = Record(key=b"\0\1\0\1more", value=b"\0\1\0\0\0\5more")
    newer = encode_batch(
        [record], timestamp_ms=1, control=True, transactional=True, producer_id=7, producer_epoch=3
    )
    assert decode_marker(newer) == Marker(7, 3, 5, True)


@pytest.mark.parametrize(
    ("key", "value", "control", "producer_id"),
    [
        (b"\0\0\0\1", b"\0\0\0\0\0\0", False, 7),  # a user's record that looks like one
        (b"\0\0\0\1", b"\0\0\0\0\0\0", True, -1),  # the metadata log's
        (b"\0\0\0\2", b"\0\0\0\0\0\0", True, 7),  # a leader change
        (b"\0\0\0", b"\0\0\0\0\0\0", True, 7),
        (b"\0\0\0\1", b"\0\0\0\0\0", True, 7),
        (None, None, True, 7),
    ],
)
def test_other_batches_are_no_markers(
    key: bytes | None, value: bytes | None, control: bool, producer_id: int
) -> None:
    """Only a control batch of a producer, with a whole record of the two types."""
    batch = encode_batch(
        [Record(key=key, value=value)],
        timestamp_ms=1,
        control=control,
        producer_id=producer_id,
        producer_epoch=0,
    )
    assert decode_marker(batch) is None


def test_a_control_batch_without_records_is_no_marker() -> None:
    """The log cleaner leaves such a batch."""
    batch = bytearray(encode_marker(Marker(7, 3, 11, True), timestamp_ms=1)[:61])
    batch[8:12] = (61 - 12).to_bytes(4, "big")
    batch[57:61] = bytes(4)
    assert decode_marker(batch) is None
