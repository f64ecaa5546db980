"""What a reader of committed records sees of a log with transactions."""

from harness.workloads.clients.own.committed_reads import visible
from harness.workloads.clients.own.records import decode
from nodes.ids import Offset
from nodes.log.batch import Record, assemble, encode_batch, read_header


def batch(offset: int, producer: int, *values: bytes, transactional: bool = True) -> bytes:
    """Some records of a producer."""
    return encode_batch(
        [Record(value=value) for value in values],
        base_offset=Offset(offset),
        timestamp_ms=1,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    """The end of a producer's transaction."""
    key = (0).to_bytes(2, "big") + int(commit).to_bytes(2, "big")
    return encode_batch(
        [Record(key=key, value=b"\0" * 6)],
        base_offset=Offset(offset),
        timestamp_ms=1,
        producer_id=producer,
        producer_epoch=0,
        control=True,
        transactional=True,
    )


LOG = (
    batch(0, 1, b"a0", b"a1")
    + batch(2, 2, b"b2")
    + batch(3, 3, b"plain", transactional=False)
    + marker(4, 1, commit=False)
    + batch(5, 1, b"a5")
    + marker(6, 2, commit=True)
    + marker(7, 1, commit=True)
)


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def test_aborted_records_and_markers_are_left_out() -> None:
    """Producer 1 aborted its first transaction, and committed its second one."""
    records, offset = visible(LOG, [(1, 0)], 0)
    assert values(records) == [b"b2", b"plain", b"a5"]
    assert offset == 8


def test_a_read_may_begin_in_a_transaction() -> None:
    """The list still names the transaction that began before."""
    records, _ = visible(LOG, [(1, 0)], 1)
    assert values(records) == [b"b2", b"plain", b"a5"]
    records, _ = visible(LOG, [], 1)
    assert values(records) == [b"a1", b"b2", b"plain", b"a5"]


def test_an_end_without_records_moves_the_offset() -> None:
    """A reader does not stop at markers."""
    assert visible(marker(4, 1, commit=False), [(1, 0)], 4) == ([], 5)
    assert visible(b"", [], 9) == ([], 9)


def test_a_marker_that_compaction_removed_leaves_an_empty_batch() -> None:
    """Its transaction has no records any more."""
    removed = assemble(read_header(marker(0, 1, commit=False)).without_records())
    records, offset = visible(removed + batch(1, 1, b"a1"), [], 0)
    assert (values(records), offset) == ([b"a1"], 2)


def test_consumer_leaves_out_the_records_of_aborted_transactions() -> None:
    """Without the list it gets them, too. It goes on behind the last marker either way."""
    some = decode(LOG, offset=0, epoch=-1, aborted=[(1, 0)])
    assert [record.value for record in some.records] == [b"b2", b"plain", b"a5"]
    every = decode(LOG, offset=0, epoch=-1)
    assert [record.value for record in every.records] == [b"a0", b"a1", b"b2", b"plain", b"a5"]
    assert some.next_offset == every.next_offset == 8
