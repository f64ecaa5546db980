"""What compaction may leave of a log, by the rules of the simulator."""

from harness.simulation.invariants.compacted_log import (
    Ended,
    Entry,
    LogRecord,
    compacted,
    read_entries,
)
from nodes.coordinators.machine import ProducerStamp
from nodes.ids import Epoch, Offset
from nodes.log.batch import Record, encode_batch, read_header
from nodes.log.transactions.markers import Marker
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import open_log
from tests.support.nodes.cleaning import keyed

PRODUCER = ProducerStamp(7, 0)


def record(
    offset: int, key: bytes, value: bytes | None = b"", producer: ProducerStamp | None = None
) -> LogRecord:
    """A record of a log."""
    return LogRecord(Offset(offset), 1000, producer, key, value)


def offsets(entries: list[Entry]) -> list[int]:
    """The offsets of what is left."""
    return [each.offset for each in entries]


LOG: list[Entry] = [
    record(0, b"a"),
    record(1, b"b", None),
    record(2, b"a"),
    record(3, b"b", None),
    record(4, b"a"),
]


def test_the_last_record_of_each_key_stays() -> None:
    assert offsets(compacted(LOG, 5, tombstones=True)) == [3, 4]


def test_tombstones_may_go() -> None:
    assert offsets(compacted(LOG, 5, tombstones=False)) == [4]


def test_records_above_the_end_stay_and_supersede_nothing() -> None:
    assert offsets(compacted(LOG, 3, tombstones=True)) == [1, 2, 3, 4]


def test_aborted_records_go_and_supersede_nothing() -> None:
    log: list[Entry] = [
        record(0, b"a"),
        record(1, b"a", producer=PRODUCER),
        Ended(Offset(2), 1000, PRODUCER, committed=False),
        record(3, b"b", producer=PRODUCER),
        Ended(Offset(4), 1000, PRODUCER, committed=True),
    ]
    assert offsets(compacted(log, 5, tombstones=True)) == [0, 2, 3, 4]


def test_records_and_markers_of_a_log_are_read_in_order() -> None:
    log = open_log(MemoryDisk())
    log.append_as_leader(keyed((b"a", b"1"), (b"b", None)), Epoch(1))
    sent = encode_batch(
        [Record(key=b"c", value=b"3")],
        timestamp_ms=1000,
        transactional=True,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    guard = log.producers.start_verification(read_header(sent), 0, supports_epoch_bump=False)
    log.append_as_leader(sent, Epoch(1), guard=guard)
    marker = Marker(7, 0, committed=True, coordinator_epoch=0)
    log.append_marker(marker, Epoch(1), 1000, transaction_version=0)
    assert list(read_entries(log)) == [
        record(0, b"a", b"1"),
        record(1, b"b", None),
        record(2, b"c", b"3", PRODUCER),
        Ended(Offset(3), 1000, PRODUCER, committed=True),
    ]
