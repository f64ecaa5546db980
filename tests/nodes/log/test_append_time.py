"""The leader's time in place of the client's: topics with LogAppendTime."""

import pytest

from nodes.ids import Epoch, Offset
from nodes.log.batch import check_crc, decode_records, read_header, with_append_time
from nodes.log.errors import CorruptBatch
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import batch, open_log


def test_log_append_time_sets_the_leaders_time_and_a_matching_crc() -> None:
    """Bit 3 of the attributes says so to readers; the records' own bytes stay."""
    stamped = with_append_time(batch(3, timestamp_ms=1000), 5000)
    header = read_header(stamped)
    check_crc(stamped, 0, header)
    assert (header.has_append_time, header.max_timestamp, header.first_timestamp) == (
        True,
        5000,
        5000,
    )
    assert header.base_timestamp == 1000
    assert [record.timestamp for record in decode_records(stamped)] == [5000] * 3


def test_a_damaged_batch_does_not_get_a_correct_crc() -> None:
    """What arrived damaged is refused before it is stamped."""
    damaged = bytearray(batch(value=b"whole"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        with_append_time(bytes(damaged), 5000)


def test_records_with_decreasing_times_are_found_by_time() -> None:
    """A wall clock that was set back leaves a log whose times fall; lookups still miss nothing."""
    log = open_log(MemoryDisk())
    for wall_ms in (1000, 9000, 2000, 3000):
        log.append_as_leader(with_append_time(batch(timestamp_ms=7), wall_ms), Epoch(0))
    assert log.offset_for_timestamp(1500) == (Offset(1), 9000)
    assert log.offset_for_timestamp(9001) is None
    assert log.max_timestamp() == (Offset(1), 9000)


def test_a_producer_forgotten_after_a_clock_jump_may_continue() -> None:
    """A day's jump makes every producer look idle; its next batch is taken, as Kafka takes it."""
    log = open_log(MemoryDisk())
    log.append_as_leader(batch(timestamp_ms=1000, producer=(5, 0, 0)), Epoch(0))
    log.expire(1000 + 86_400_000, Offset(1))
    assert log.producers.get(5) is None
    log.append_as_leader(batch(timestamp_ms=1001, producer=(5, 0, 1)), Epoch(0))
    assert log.end_offset == 2
