"""The rows of passes over a compacted topic."""

from harness.workloads.clients.keyed_sends import key_bytes
from harness.workloads.clients.passes import CUT_SHORT
from harness.workloads.clients.payload import value_of
from harness.workloads.clients.reads import Read
from tests.support.clients.recorded import CODEC, Recorded


def record(offset: int, *, partition: int = 0) -> Read:
    """A record of key 7."""
    return Read(partition, offset, 2, CODEC.encode(1, offset), key_bytes(7))


def test_whole_pass_has_its_records_and_its_end() -> None:
    """A tombstone has no value."""
    seen = Recorded()
    passes = seen.passes()
    reading = passes.begin(0, 5, 0, 4)
    passes.polled([record(1), Read(0, 3, 2, None, key_bytes(8))], 10, node=3)
    assert reading.over
    passes.ended(0)
    columns = ("op", "invoke_ns", "value", "offset", "node", "key", "error")
    assert seen.writer.of("keyed-poll", *columns) == [
        (reading.op, 10, value_of(1, 1), 1, 3, 7, None),
        (reading.op, 10, None, 3, 3, 8, None),
    ]
    columns = ("op", "type", "invoke_ns", "partition", "offset", "error")
    assert seen.writer.of("keyed-pass", *columns) == [(reading.op, "ok", 5, 0, 4, None)]
    assert seen.tally.read == 2


def test_passes_of_two_partitions_overlap() -> None:
    """Each has an operation of its own."""
    seen = Recorded()
    passes = seen.passes()
    ops = [passes.begin(partition, 5, 0, 2).op for partition in (0, 1)]
    passes.polled([record(0), record(0, partition=1), record(1)], 10)
    passes.ended(1)
    passes.ended(0)
    assert seen.writer.of("keyed-poll", "op", "offset") == [(ops[0], 0), (ops[1], 0), (ops[0], 1)]
    assert seen.writer.of("keyed-pass", "op", "type", "offset") == [
        (ops[1], "info", 1),
        (ops[0], "ok", 2),
    ]


def test_pass_that_did_not_come_to_the_end_is_not_whole() -> None:
    """Nor is one whose log was truncated, however far it came."""
    seen = Recorded()
    passes = seen.passes()
    passes.begin(0, 5, 0, 3)
    passes.polled([record(0)], 10)
    passes.ended(0)
    reading = passes.begin(0, 20, 0, 2)
    passes.polled([record(0), record(1)], 21)
    reading.why = "LOG_TRUNCATION"
    assert reading.over
    passes.ended(0)
    assert seen.writer.of("keyed-pass", "type", "offset", "error") == [
        ("info", 1, CUT_SHORT),
        ("info", 2, "LOG_TRUNCATION"),
    ]


def test_step_back_counts_as_another_poll() -> None:
    """The rows of one poll are ordered by offset only."""
    seen = Recorded()
    passes = seen.passes()
    passes.begin(0, 5, 0, 9)
    passes.polled([record(4), record(5), record(2), record(3)], 0)
    times = seen.writer.of("keyed-poll", "offset", "invoke_ns")
    assert [offset for offset, _ in times] == [4, 5, 2, 3]
    assert times[0][1] == times[1][1] < times[2][1] == times[3][1]


def test_key_that_no_producer_writes_is_foreign() -> None:
    """It has no number."""
    seen = Recorded()
    passes = seen.passes()
    passes.begin(0, 5, 0, 9)
    passes.polled([Read(0, 0, 2, CODEC.encode(1, 1), b"?"), Read(0, 1, 2, b"?", key_bytes(1))], 0)
    told = seen.writer.of("keyed-poll", "key", "error")
    assert told == [(None, "foreign"), (1, "foreign")]
