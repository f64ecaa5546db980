"""Transactions in a cleaned log: markers, aborted batches, and the index of the aborted ones."""

import struct

import pytest

from nodes.ids import Epoch, Offset
from nodes.log.batch import TRANSACTIONAL_BIT, BatchHeader, assemble, patch, read_header
from nodes.log.log import Log
from nodes.log.transactions.aborted_index import AbortedTransaction
from nodes.log.transactions.markers import Marker, encode_marker
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import DIRECTORY, content, open_log
from tests.support.nodes.cleaning import COMPACTED, cleaning, do, has_no_gap, keyed, roll

P1, P2 = 71, 72
ABORT, COMMIT = False, True


class Transactions:
    """A log that a follower copied."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.log: Log = open_log(self.disk, config=COMPACTED)
        self.sequences = {P1: 0, P2: 0}
        self.now_ms = 5000
        self.dirty = 0

    def write(self, producer: int, key: bytes, value: bytes | None = b"v") -> int:
        """A record of an open transaction; its offset."""
        end = self.log.end_offset
        plain = keyed(
            (key, value), producer=(producer, 0, self.sequences[producer]), base_offset=end, epoch=1
        )
        self.sequences[producer] += 1
        found = read_header(plain)
        batch = assemble(found._replace(attributes=TRANSACTIONAL_BIT), plain[61:])
        self.log.append_as_follower(batch)
        return end

    def end(self, producer: int, committed: bool) -> int:
        """The marker; its offset."""
        offset = self.log.end_offset
        batch = bytearray(encode_marker(Marker(producer, 0, 1, committed), 1000))
        patch(batch, 0, base_offset=offset, leader_epoch=Epoch(1))
        self.log.append_as_follower(bytes(batch))
        return offset

    def end_without_record(self, producer: int) -> None:
        """The marker that a follower gets whose leader has compacted it."""
        marker = read_header(encode_marker(Marker(producer, 0, 1, ABORT), 1000))
        bare = marker.without_records()._replace(
            base_offset=self.log.end_offset, partition_leader_epoch=Epoch(1)
        )
        self.log.append_as_follower(assemble(bare))

    def clean(self, *, later_ms: int = 0) -> None:
        self.now_ms += later_ms
        roll(self.log)
        run = cleaning(self.log, first_dirty=self.dirty, now_ms=self.now_ms)
        do(run, self.disk)
        self.dirty = run.stats.end
        assert has_no_gap(self.log)

    def left(self) -> list[int]:
        """The offsets of all records, those of markers too."""
        headers = map(read_header, content(self.log))
        return [h.base_offset for h in headers if h.record_count]


@pytest.fixture
def log() -> Transactions:
    return Transactions()


def test_aborted_records_supersede_nothing_and_are_removed(log: Transactions) -> None:
    """The marker stays until the cleaning after its horizon; its transaction is in the index as
    long as a batch of it was seen.
    """
    committed = log.write(P1, b"a")
    commit = log.end(P1, COMMIT)
    log.write(P2, b"a", b"aborted")
    abort = log.end(P2, ABORT)
    log.write(P1, b"b")
    log.end(P1, COMMIT)
    entry = AbortedTransaction(P2, Offset(2), Offset(3), Offset(4))
    assert log.log.aborted_transactions(Offset(0), Offset(6)) == [entry]
    log.clean()
    assert log.left() == [committed, commit, abort, 4, 5]
    assert log.log.aborted_transactions(Offset(0), Offset(6)) == [entry]
    index = log.disk.read(f"{DIRECTORY}/{0:020d}.txnindex")
    assert struct.unpack(">hqqqq", index) == (0, P2, 2, 3, 4)


def test_index_of_a_removed_transaction_is_replaced_by_an_empty_one(log: Transactions) -> None:
    """A start must not find the old one beside the new segment (KAFKA-13727)."""
    log.write(P2, b"a", b"aborted")
    log.end(P2, ABORT)
    for number in range(6):  # the producer's remembered batches are others then
        log.write(P2, b"%d" % number)
        log.end(P2, COMMIT)
    log.clean()
    assert log.log.aborted_transactions(Offset(0), log.log.end_offset)
    log.write(P2, b"9")
    log.end(P2, COMMIT)
    log.clean()
    assert not log.log.aborted_transactions(Offset(0), log.log.end_offset)
    assert log.disk.read(f"{DIRECTORY}/{0:020d}.txnindex") == b""
    log.log.flush()
    log.disk.crash()
    again = open_log(log.disk, config=COMPACTED)
    assert not again.aborted_transactions(Offset(0), again.end_offset)
    assert again.last_stable_offset(again.end_offset) == again.end_offset


def test_marker_without_a_record_ends_its_transaction_only(log: Transactions) -> None:
    """The next transaction of the producer is committed, and stays."""
    log.write(P1, b"a")
    log.end_without_record(P1)
    kept = log.write(P1, b"b")
    marker = log.end(P1, COMMIT)
    log.clean()
    assert log.left() == [kept, marker]


def test_marker_stays_for_the_retention_after_its_last_record(log: Transactions) -> None:
    """KIP-534: the first cleaning that finds none sets the horizon."""
    log.write(P1, b"a")
    first = log.end(P1, COMMIT)
    for _ in range(6):  # the producer's remembered batches are others then
        log.write(P1, b"a")
    log.end(P1, COMMIT)
    log.clean()
    assert first in log.left()
    assert not headers_at(log, first).has_delete_horizon
    log.write(P1, b"x")
    log.end(P1, COMMIT)
    log.clean()
    assert headers_at(log, first).has_delete_horizon
    log.write(P1, b"x")
    log.end(P1, COMMIT)
    log.clean(later_ms=99)
    assert first in log.left()
    log.write(P1, b"x")
    log.end(P1, COMMIT)
    log.clean(later_ms=1)
    assert first not in log.left()


def headers_at(log: Transactions, offset: int) -> BatchHeader:
    return read_header(log.log.read(Offset(offset), 1, log.log.end_offset))


def test_transaction_over_several_segments_keeps_its_marker(log: Transactions) -> None:
    """KAFKA-8351: its records are in other segments, and even in other groups."""
    first = log.write(P2, b"keep", b"v" * 300)
    for number in range(8):
        log.write(P1, b"%d" % number, b"v" * 300)
    log.end(P1, COMMIT)
    commit = log.end(P2, COMMIT)
    log.clean()
    assert len(log.log.segments.all) > 3
    assert {first, commit} <= {*log.left()}
    assert not headers_at(log, commit).has_delete_horizon


def test_epochs_of_producers_outlast_their_records(log: Transactions) -> None:
    """A log that is opened without a snapshot knows every producer, and so fences its zombies."""
    log.write(P1, b"a")
    log.end(P1, COMMIT)
    for _ in range(4):
        log.write(P2, b"a")
        log.end(P2, COMMIT)
        log.clean(later_ms=200)
    known = dict(log.log.producers.items())
    log.log.flush()
    log.disk.crash()
    again = open_log(log.disk, config=COMPACTED)
    assert {id_: each.epoch for id_, each in again.producers.items()} == {
        id_: each.epoch for id_, each in known.items()
    }


def test_record_with_the_key_of_a_marker_is_a_record(log: Transactions) -> None:
    """KAFKA-14055: neither supersedes the other."""
    offset = log.write(P1, struct.pack(">hh", 0, 1))
    marker = log.end(P1, COMMIT)
    log.clean()
    assert log.left() == [offset, marker]


def test_transaction_whose_marker_was_removed_is_not_open_after_a_kill(log: Transactions) -> None:
    """An unclean start validates the segments from the recovery point on, and has to begin at a
    snapshot below: there the transaction is open. The cleaner removed its marker, because the
    producer was forgotten (seed 97420).
    """
    large = b"v" * 250  # the segments stay apart
    log.write(P2, b"first", large)
    log.write(P1, b"a")
    roll(log.log)
    marker = log.end(P1, COMMIT)
    log.write(P2, b"second", large)
    log.end(P2, COMMIT)
    for key in (b"a", b"b", b"c"):
        assert marker in log.left()
        log.write(P2, key)
        log.end(P2, COMMIT)
        log.log.producers.forget_idle(1 << 40, 1)
        log.clean(later_ms=1000)
    assert marker not in log.left()
    again = open_log(log.disk, config=COMPACTED, recovery_point=marker + 1)
    assert again.last_stable_offset(again.end_offset) == again.end_offset
