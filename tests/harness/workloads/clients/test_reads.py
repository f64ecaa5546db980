"""The rows of a consumer's reads, and where it goes on after a truncation."""

import pytest

from harness.workloads.clients.counts import REWIND_RECORDS
from harness.workloads.clients.reads import Read
from tests.support.clients.recorded import CODEC, Recorded


def test_poll_is_an_operation_with_a_row_per_record() -> None:
    """An unknown leader epoch stays unknown."""
    seen = Recorded()
    reads = seen.reads()
    records = [Read(0, 5, 2, CODEC.encode(1, 1)), Read(1, 8, None, b"what is this?")]
    assert reads.polled(records, 10) == 2
    [(first, *_), (second, *_)] = seen.writer.of("poll", "op")
    assert first == second
    columns = ("invoke_ns", "partition", "offset", "leader_epoch", "error")
    assert seen.writer.of("poll", *columns) == [(10, 0, 5, 2, None), (10, 1, 8, None, "foreign")]
    assert seen.tally.read == 2


def test_jump_in_one_partition_keeps_the_positions_of_the_others() -> None:
    """It is a row with its reason."""
    seen = Recorded()
    reads = seen.reads()
    reads.assigned({0: 5, 1: 8}, 1)
    reads.moved({0: 2}, 3, reason="WHY")
    assigned = seen.writer.of("assign", "invoke_ns", "partition", "offset", "error")
    assert assigned == [(1, 0, 5, None), (1, 1, 8, None), (3, 0, 2, "WHY")]
    payload = CODEC.encode(1, 1)
    reads.polled([Read(1, 8, 0, payload), Read(0, 2, 0, payload)], 10, node=3)
    [(first, node), (second, _)] = seen.writer.of("poll", "op", "node")
    assert (first, node) == (second, 3)


@pytest.mark.parametrize(
    ("bounds", "goes_on"),
    [
        ((0, 3_000), 3_000 - REWIND_RECORDS),
        ((2_500, 3_000), 2_500),
        ((0, 9_000), 5_000 - REWIND_RECORDS),
        (None, 5_000 - REWIND_RECORDS),
    ],
)
def test_after_a_truncation_the_consumer_goes_back_to_an_existing_offset(
    bounds: tuple[int, int] | None, goes_on: int
) -> None:
    """It lies some records before the log's end or the position; other partitions stay."""
    reads = Recorded().reads()
    reads.assigned({0: 5_000, 1: 70}, 1)
    assert reads.rewound({0: bounds}) == {0: goes_on, 1: 70}


@pytest.mark.parametrize(
    ("isolation", "level"),
    [(None, "read_committed"), (0, "read_uncommitted"), (1, "read_committed")],
)
def test_only_who_wants_to_reads_uncommitted(isolation: int | None, level: str) -> None:
    """Else a library would not wait for offsets of transactions that are being ended (KIP-447)."""
    reads = Recorded().reads()
    reads.isolation = isolation
    members = Recorded().member_reads("another")
    members.of_topic["another"].isolation = isolation
    assert (reads.isolation_level, members.isolation_level) == (level, level)
