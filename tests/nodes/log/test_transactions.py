"""Transactions in a log: the last stable offset, the index of aborted ones, restarts."""

import random
import struct

import pytest

from nodes.ids import Epoch, Offset
from nodes.log.batch import assemble, read_header
from nodes.log.errors import CoordinatorFenced, InvalidBatch, InvalidProducerEpoch
from nodes.log.log import Log, LogConfig
from nodes.log.transactions.aborted_index import AbortedTransaction
from nodes.log.transactions.markers import Marker, decode_marker, encode_marker
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import (
    DIRECTORY,
    SMALL,
    batch,
    content,
    end_transaction,
    open_log,
    write_in_transaction,
)

P, Q = 7, 8
FIRST = f"{DIRECTORY}/{0:020d}.txnindex"


def aborted(log: Log, start: int = 0, end: int | None = None) -> list[tuple[int, int, int, int]]:
    """The aborted transactions of a range, by default all."""
    found = log.aborted_transactions(Offset(start), Offset(log.end_offset if end is None else end))
    assert all(type(each) is AbortedTransaction for each in found)
    return [tuple(each) for each in found]  # type: ignore[misc]


def stable(log: Log, high_watermark: int | None = None) -> int:
    """The LSO for a high watermark, by default the log's end."""
    end = log.end_offset
    return log.last_stable_offset(end if high_watermark is None else Offset(high_watermark))


def interleaved(log: Log) -> None:
    """P aborts 0..4, Q commits 1..6, P aborts 5..8; 9 is outside of transactions."""
    write_in_transaction(log, (P, 0, 0))
    write_in_transaction(log, (Q, 0, 0), 2)
    write_in_transaction(log, (P, 0, 1))
    end_transaction(log, P)
    write_in_transaction(log, (P, 0, 2))
    end_transaction(log, Q, committed=True)
    write_in_transaction(log, (P, 0, 3))
    end_transaction(log, P, coordinator_epoch=3)
    log.append_as_leader(batch(), Epoch(0))


def interleaved_in_segments(log: Log) -> None:
    """`interleaved`, and a transaction that was aborted in later segments."""
    interleaved(log)
    for number in range(4, 12):
        write_in_transaction(log, (P, 0, number), value=b"x" * 90)
    end_transaction(log, P, coordinator_epoch=3)


INTERLEAVED = [(P, 0, 4, 1), (P, 5, 8, 9)]


def test_nothing_is_surely_decided_while_a_marker_from_before_a_start_may_be_uncommitted() -> None:
    """The snapshot of the start has the transaction's end, but not where it began."""
    disk = MemoryDisk()
    log = open_log(disk)
    log.append_as_leader(batch(), Epoch(0))
    write_in_transaction(log, (P, 0, 0))
    end_transaction(log, P)
    assert [log.decided_offset(Offset(at)) for at in (1, 2, 3)] == [1, 1, 3]
    log.close()
    again = open_log(disk, clean=True)
    assert stable(again, 2) == 2
    assert [again.decided_offset(Offset(at)) for at in (1, 2, 3)] == [0, 0, 3]
    write_in_transaction(again, (P, 0, 1))
    end_transaction(again, P)
    assert [again.decided_offset(Offset(at)) for at in (3, 4, 5)] == [3, 3, 5]
    again.truncate_to(Offset(4))
    assert [again.decided_offset(Offset(at)) for at in (2, 3, 4)] == [0, 3, 3]


def test_the_lso_is_below_open_transactions_and_uncommitted_markers() -> None:
    """And never above the high watermark."""
    log = open_log(MemoryDisk())
    log.append_as_leader(batch(2), Epoch(0))
    assert (stable(log), stable(log, 1)) == (2, 1)
    write_in_transaction(log, (P, 0, 0), 2)
    log.append_as_leader(batch(), Epoch(0))
    assert (stable(log, 1), stable(log, 2), stable(log)) == (1, 2, 2)
    end_transaction(log, P, committed=True)
    assert stable(log, 5) == 2
    assert stable(log) == 6


def test_the_lso_is_not_below_the_logs_start() -> None:
    """Records of an open transaction were deleted."""
    log = open_log(MemoryDisk())
    write_in_transaction(log, (P, 0, 0), 4)
    log.advance_start(Offset(2))
    assert stable(log) == 2


def test_an_abort_is_in_the_index_and_a_commit_is_not() -> None:
    """With the LSO that the marker makes possible."""
    log = open_log(MemoryDisk())
    interleaved(log)
    assert aborted(log) == INTERLEAVED
    assert aborted(log, 5, 6) == [(P, 5, 8, 9)]
    assert aborted(log, 0, 5) == [(P, 0, 4, 1)]
    assert aborted(log, 9) == []


def test_a_marker_that_ends_nothing_is_not_in_the_index() -> None:
    """The transaction wrote nothing to this partition."""
    disk = MemoryDisk()
    log = open_log(disk)
    end_transaction(log, P)
    assert aborted(log) == []
    assert not disk.exists(FIRST)
    assert stable(log) == 1


def test_a_transaction_over_several_segments_is_found_from_each_of_them() -> None:
    """Its entry is in the segment of its marker."""
    log = open_log(MemoryDisk())
    for number in range(12):
        write_in_transaction(log, (P, 0, number), value=b"x" * 90)
    write_in_transaction(log, (Q, 0, 0))
    end_transaction(log, P)
    assert log.size > 3 * SMALL.segment_bytes
    for start in range(13):
        assert aborted(log, start, start + 1) == [(P, 0, 13, 12)]


def test_refused_markers_change_nothing() -> None:
    """Of an older epoch, or of an older coordinator."""
    log = open_log(MemoryDisk())
    write_in_transaction(log, (P, 4, 0))
    end_transaction(log, P, epoch=4, coordinator_epoch=2)
    write_in_transaction(log, (P, 4, 1))
    before = (log.end_offset, log.producers.get(P))
    with pytest.raises(InvalidProducerEpoch):
        end_transaction(log, P, epoch=3, coordinator_epoch=2)
    with pytest.raises(InvalidProducerEpoch):
        end_transaction(log, P, epoch=4, coordinator_epoch=2, transaction_version=2)
    with pytest.raises(CoordinatorFenced):
        end_transaction(log, P, epoch=4, coordinator_epoch=1)
    assert (log.end_offset, log.producers.get(P)) == before
    assert stable(log) == 2


def test_a_coordinator_may_write_without_a_sequence() -> None:
    """The group coordinator writes offsets for a producer; a client may not."""
    log = open_log(MemoryDisk())
    offsets = batch(1, producer=(P, 0, -1), transactional=True)
    guard = log.producers.start_verification(read_header(offsets), 0, supports_epoch_bump=False)
    with pytest.raises(InvalidBatch):
        log.append_as_leader(offsets, Epoch(0), guard=guard)
    log.append_as_leader(offsets, Epoch(0), guard=guard, from_coordinator=True)
    log.append_as_leader(offsets, Epoch(0), from_coordinator=True)
    assert (log.end_offset, stable(log)) == (2, 0)


def test_a_transactional_batch_has_a_producer() -> None:
    """Nobody could end its transaction."""
    log = open_log(MemoryDisk())
    with pytest.raises(InvalidBatch):
        log.append_as_leader(batch(transactional=True), Epoch(0))


def test_a_follower_has_the_same_transactions() -> None:
    """The types of the markers are in the records that it copies."""
    leader, follower = open_log(MemoryDisk()), open_log(MemoryDisk())
    interleaved(leader)
    write_in_transaction(leader, (Q, 0, 2))
    follower.append_as_follower(b"".join(content(leader)))
    assert aborted(follower) == INTERLEAVED
    assert dict(follower.producers.items()) == dict(leader.producers.items())
    assert stable(follower) == stable(leader) == 10


def test_a_markers_guard_is_void_on_a_follower_too() -> None:
    """It may become leader while a confirmation is on its way."""
    leader, log = open_log(MemoryDisk()), open_log(MemoryDisk())
    sent = read_header(batch(1, producer=(P, 0, 0), transactional=True))
    assert log.producers.start_verification(sent, 0, supports_epoch_bump=False)
    end_transaction(leader, P)
    log.append_as_follower(b"".join(content(leader)))
    assert log.producers.verifications.get(P) is None


@pytest.mark.parametrize("cut", range(11))
def test_a_truncation_returns_to_the_transactions_of_then(cut: int) -> None:
    """As if nothing behind it had ever been there."""
    log, wanted = open_log(MemoryDisk()), open_log(MemoryDisk())
    interleaved(log)
    log.truncate_to(Offset(cut))
    wanted.append_as_follower(b"".join(content(log)))
    assert aborted(log, 0, 11) == aborted(wanted, 0, 11)
    assert dict(log.producers.items()) == dict(wanted.producers.items())
    assert stable(log) == stable(wanted)


def test_a_truncation_far_back_returns_there_too() -> None:
    """By the snapshots in memory, and by those in files."""
    log, wanted = open_log(MemoryDisk()), open_log(MemoryDisk())
    for number in range(1500):
        write_in_transaction(log, (P, 0, number))
        if number % 7 == 6:
            end_transaction(log, P, committed=number % 2 == 0)
    for cut in (1500, 1021, 1020, 300, 3):
        log.truncate_to(Offset(cut))
        wanted.truncate_fully(Offset(0))
        wanted.append_as_follower(b"".join(content(log)))
        assert aborted(log) == aborted(wanted)
        assert dict(log.producers.items()) == dict(wanted.producers.items())
        assert stable(log) == stable(wanted)


def test_a_log_that_begins_anew_has_no_transactions() -> None:
    """Nor an index of them."""
    disk = MemoryDisk()
    log = open_log(disk)
    interleaved(log)
    write_in_transaction(log, (Q, 0, 2))
    log.truncate_fully(Offset(50))
    assert (stable(log), aborted(log), log.producers.ids()) == (50, [], ())
    assert not any("txnindex" in name for name in disk.listdir(DIRECTORY))


def test_the_index_is_removed_with_its_segment() -> None:
    """By retention, and by a deletion of records."""
    disk = MemoryDisk()
    log = open_log(disk)
    for number in range(6):
        write_in_transaction(log, (P, 0, number), value=b"x" * 90)
        end_transaction(log, P)
    log.advance_start(Offset(10))
    names = disk.listdir(DIRECTORY)
    stems = {name.split(".")[0] for name in names if name.endswith(".log")}
    assert {n.split(".")[0] for n in names if n.endswith(".txnindex")} <= stems
    assert aborted(log, 10) == [(P, 10, 11, 12)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_restarted_log_has_the_same_transactions(clean: bool) -> None:
    """Open ones, ended ones, aborted ones; from the files or from the records."""
    disk = MemoryDisk()
    log = open_log(disk)
    interleaved(log)
    write_in_transaction(log, (Q, 0, 2))
    before = (aborted(log), stable(log), dict(log.producers.items()))
    if clean:
        log.close()
    else:
        log.flush()
    log = open_log(disk, clean=clean)
    assert (aborted(log), stable(log), dict(log.producers.items())) == before
    assert log.has_aborted
    end_transaction(log, Q)
    assert aborted(log)[-1] == (Q, 10, 11, 12)


def test_a_restart_remembers_markers_that_may_not_be_committed() -> None:
    """As far as the log is replayed: here, all of it."""
    disk = MemoryDisk()
    log = open_log(disk)
    write_in_transaction(log, (P, 0, 0))
    end_transaction(log, P)
    log = open_log(disk)
    assert (stable(log, 1), stable(log, 2)) == (0, 2)


@pytest.mark.parametrize("torn", [False, True])
def test_an_index_of_a_killed_log_is_rebuilt(torn: bool) -> None:
    """A missing entry, and entries of records that are not there any more."""
    disk = MemoryDisk()
    log = open_log(disk, config=LogConfig())
    interleaved(log)
    right = disk.read(FIRST)
    disk.write_atomic(FIRST, right[:40] if torn else right + right[:34])
    log = open_log(disk, config=LogConfig())
    assert aborted(log) == INTERLEAVED
    assert disk.read(FIRST) == right
    assert log.recovery.rebuilt_indexes


def test_every_index_of_a_killed_log_is_rebuilt() -> None:
    """An index without an entry that it should have looks sound. The one behind it does not."""
    disk = MemoryDisk()
    log = open_log(disk)
    interleaved_in_segments(log)
    everything = aborted(log)
    indexes = [name for name in disk.listdir(DIRECTORY) if name.endswith(".txnindex")]
    assert len(indexes) > 1
    disk.unlink(FIRST)
    last = f"{DIRECTORY}/{indexes[-1]}"
    disk.write_atomic(last, disk.read(last)[:-1])
    assert aborted(open_log(disk)) == everything


def test_a_transaction_that_is_open_at_a_clean_stop_stays_open() -> None:
    """Also one that began with the log."""
    disk = MemoryDisk()
    log = open_log(disk)
    write_in_transaction(log, (P, 0, 0))
    log.append_as_leader(batch(), Epoch(0))
    log.close()
    log = open_log(disk, clean=True)
    assert (stable(log), log.end_offset) == (0, 2)


def test_a_log_knows_whether_a_transaction_was_aborted() -> None:
    log = open_log(MemoryDisk())
    write_in_transaction(log, (P, 0, 0))
    end_transaction(log, P, committed=True)
    assert not log.has_aborted
    write_in_transaction(log, (P, 0, 1))
    end_transaction(log, P)
    assert log.has_aborted


def test_a_damaged_index_of_a_closed_log_is_rebuilt() -> None:
    """One with half an entry; the segments after it too, for a replay passes them anyway."""
    disk = MemoryDisk()
    log = open_log(disk)
    interleaved_in_segments(log)
    everything = aborted(log)
    log.close()
    disk.write_atomic(FIRST, disk.read(FIRST)[:-1])
    log = open_log(disk, clean=True)
    assert aborted(log) == everything


def test_no_entry_of_a_lost_abort_survives_a_power_loss() -> None:
    """The records at the same offsets may be of a committed transaction."""
    for seed in range(40):
        disk = MemoryDisk()
        log = open_log(disk)
        log.append_as_leader(batch(), Epoch(0))
        log.flush()
        write_in_transaction(log, (P, 0, 0))
        end_transaction(log, P)
        disk.crash(random.Random(seed))
        log = open_log(disk, recovery_point=1)
        for entry in aborted(log):
            marker = decode_marker(log.read(Offset(entry[2]), 1, log.end_offset))
            assert marker == Marker(P, 0, 0, committed=False)
        if log.end_offset == 3:
            assert aborted(log) == [(P, 1, 2, 3)]


def rolled(log: Log) -> None:
    """Begin a new segment although nothing was written since the last flush."""
    log.expire(10**15, Offset(0))
    log.flush()


@pytest.mark.parametrize("seed", [None, *range(20)])
def test_no_entry_is_lost_below_the_recovery_point(seed: int | None) -> None:
    """The index is synced with the records, also while its segment is the active one."""
    disk = MemoryDisk()
    log = open_log(disk, config=LogConfig())
    log.append_as_leader(batch(), Epoch(0))
    log.flush()
    interleaved(log)
    point = log.flush()
    rolled(log)
    disk.crash(None if seed is None else random.Random(seed))
    log = open_log(disk, recovery_point=point)
    assert aborted(log) == [(P, 1, 5, 2), (P, 6, 9, 10)]


def test_a_new_index_has_its_name_after_a_clean_stop() -> None:
    """The directory was synced before, when there was no index."""
    disk = MemoryDisk()
    log = open_log(disk, config=LogConfig())
    log.append_as_leader(batch(), Epoch(0))
    log.flush()
    interleaved(log)
    log.close()
    disk.crash()
    assert aborted(open_log(disk, clean=True)) == [(P, 1, 5, 2), (P, 6, 9, 10)]


def test_no_entry_comes_back_after_a_truncation() -> None:
    """The truncation of the index is on disk with that of the records."""
    disk = MemoryDisk()
    log = open_log(disk, config=LogConfig())
    log.append_as_leader(batch(), Epoch(0))
    write_in_transaction(log, (P, 0, 0))
    end_transaction(log, P)
    log.flush()
    log.truncate_to(Offset(2))
    rolled(log)
    disk.crash()
    log = open_log(disk, recovery_point=2, config=LogConfig())
    assert aborted(log, 0, 9) == []


def test_a_rebuilt_index_is_on_disk() -> None:
    """Its segment may have been flushed before; nothing else would sync it."""
    disk = MemoryDisk()
    log = open_log(disk, config=LogConfig())
    interleaved(log)
    point = log.flush()
    right = disk.read(FIRST)
    disk.write_atomic(FIRST, right + struct.pack(">hqqqq", 0, Q, 10, 11, 12))
    log = open_log(disk, recovery_point=point, config=LogConfig())
    rolled(log)
    disk.crash()
    log = open_log(disk, recovery_point=point, config=LogConfig())
    assert disk.read(FIRST) == right


def test_an_index_without_its_segment_is_removed() -> None:
    """A power loss may have undone the removal of one of the files."""
    disk = MemoryDisk()
    interleaved(open_log(disk))
    orphan = f"{DIRECTORY}/{500:020d}.txnindex"
    disk.write_atomic(orphan, b"")
    open_log(disk)
    assert not disk.exists(orphan)


def _without_record(marker: Marker, offset: int) -> bytes:
    """The batch of a marker, as the log cleaner leaves it."""
    whole = encode_marker(marker, timestamp_ms=1000)
    header = read_header(whole)._replace(
        base_offset=Offset(offset), partition_leader_epoch=Epoch(0)
    )
    return assemble(header.without_records())


def test_a_marker_that_was_cleaned_ends_the_transaction_of_a_replica_that_lagged() -> None:
    """Its leader removed the marker before the replica got it. The transaction was open for ever
    here, and its records were not known as aborted."""
    disk = MemoryDisk()
    log = open_log(disk)
    write_in_transaction(log, (P, 0, 0))
    write_in_transaction(log, (Q, 0, 0))
    log.append_as_follower(_without_record(Marker(P, 1, 5, committed=False), 2))
    assert (stable(log), aborted(log)) == (1, [(P, 0, 2, 1)])
    known = log.producers.get(P)
    assert known is not None
    assert (known.epoch, known.batches, known.transaction_start) == (1, (), -1)
    log.append_as_follower(_without_record(Marker(P, 0, 5, committed=False), 3))
    assert log.producers.get(P) == known, "an older epoch changes nothing"
    state = dict(log.producers.items())
    log.close()
    for path in list(disk.listdir(DIRECTORY)):
        if path.endswith(".snapshot"):
            disk.unlink(f"{DIRECTORY}/{path}")
    log = open_log(disk)
    assert (stable(log), aborted(log)) == (1, [(P, 0, 2, 1)])
    assert dict(log.producers.items()) == state
