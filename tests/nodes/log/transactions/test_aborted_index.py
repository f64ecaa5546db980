"""The index of aborted transactions: Kafka's bytes, lookups, truncation, rebuilding."""

import random
import struct

from nodes.ids import Offset
from nodes.log.transactions.aborted_index import AbortedIndex, AbortedTransaction
from nodes.storage.memory import MemoryDisk

PATH = "t-0/00000000000000000000.txnindex"


def entry(producer_id: int, first: int, last: int, stable: int) -> AbortedTransaction:
    """An entry of plain numbers."""
    return AbortedTransaction(producer_id, Offset(first), Offset(last), Offset(stable))


def disk_with(*entries: AbortedTransaction) -> tuple[MemoryDisk, AbortedIndex]:
    """A disk, and an index of these entries on it."""
    disk = MemoryDisk()
    disk.makedirs("t-0")
    index = AbortedIndex(disk, PATH)
    for each in entries:
        index.add(each)
    return disk, index


def test_the_file_has_kafkas_format_and_exists_from_the_first_entry_on() -> None:
    """34 bytes: version, producer id, first, last and last stable offset."""
    disk, index = disk_with()
    assert (len(index), index.is_sound(), index.unsynced()) == (0, True, [])
    assert not disk.exists(PATH)
    assert index.add(entry(7, 3, 9, 5))
    assert not index.add(entry(8, 5, 10, 11))
    assert disk.read(PATH) == struct.pack(">hqqqqhqqqq", 0, 7, 3, 9, 5, 0, 8, 5, 10, 11)
    assert len(AbortedIndex(disk, PATH)) == 2


def test_lookups_find_what_overlaps_and_stop_where_nothing_later_can() -> None:
    """Against the definition, over random entries."""
    rng = random.Random(5)
    entries: list[AbortedTransaction] = []
    opened: dict[int, int] = {}
    for offset in range(3000):
        producer_id = rng.randrange(6)
        if producer_id in opened:
            first = opened.pop(producer_id)
            stable = min(opened.values(), default=offset + 1)
            entries.append(entry(producer_id, first, offset, stable))
        else:
            opened[producer_id] = offset
    _, index = disk_with(*entries)
    for _ in range(200):
        start = rng.randrange(3000)
        end = start + rng.randrange(1, 200)
        found, complete = index.overlapping(Offset(start), Offset(end))
        assert found == [e for e in entries if e.last_offset >= start and e.first_offset < end]
        assert complete == any(
            e.last_offset >= start and e.last_stable_offset >= end for e in entries
        )


def test_a_lookup_reads_no_further_than_necessary() -> None:
    """The entry whose LSO is at the end of the range is the last one to read."""
    _, index = disk_with(entry(1, 0, 2, 3), entry(2, 3, 4, 5), entry(3, 0, 6, 7))
    assert index.overlapping(Offset(0), Offset(3)) == ([entry(1, 0, 2, 3)], True)


def test_a_truncation_removes_later_markers() -> None:
    """Entries are in the order of their markers."""
    disk, index = disk_with(entry(1, 0, 2, 3), entry(2, 3, 4, 5), entry(3, 5, 6, 7))
    index.cut_from(Offset(4))
    assert disk.read(PATH) == disk_with(entry(1, 0, 2, 3))[0].read(PATH)
    index.cut_from(Offset(3))
    assert len(index) == 1


def test_a_damaged_file_is_not_sound() -> None:
    """Half an entry, another version, or an order that cannot be."""
    good = disk_with(entry(1, 0, 2, 3), entry(2, 3, 4, 5))[0].read(PATH)
    assert AbortedIndex(disk_with(entry(1, 0, 2, 3), entry(2, 3, 4, 5))[0], PATH).is_sound()
    for bad in (good[:-1], b"\0\1" + good[2:], good[34:] + good[:34], bytes(34)):
        disk = MemoryDisk()
        disk.makedirs("t-0")
        disk.write_atomic(PATH, bad)
        assert not AbortedIndex(disk, PATH).is_sound()


def test_a_rebuilt_file_has_the_given_entries_and_is_durable() -> None:
    """Whatever was there before; no file is made for no entries."""
    wanted = [entry(1, 0, 2, 3), entry(2, 3, 4, 5)]
    for before in ((), wanted, (entry(9, 0, 8, 9),)):
        disk, index = disk_with(*before)
        assert index.match(wanted) == (list(before) != wanted)
        disk.sync_dir("t-0")
        disk.sync_dir("")
        disk.crash(random.Random(1))
        assert disk.read(PATH) == disk_with(*wanted)[0].read(PATH)
    disk, index = disk_with()
    assert not index.match([])
    assert not disk.exists(PATH)


def test_what_was_written_during_a_sync_is_not_synced() -> None:
    """The next flush has to sync the file again."""
    _, index = disk_with(entry(1, 0, 2, 3))
    assert index.unsynced()
    index.add(entry(2, 3, 4, 5))
    index.synced()
    assert index.unsynced()
    index.synced()
    assert not index.unsynced()
