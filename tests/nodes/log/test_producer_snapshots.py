"""Producer snapshots: Kafka's bytes, and a log that is opened by them."""

import struct
from collections.abc import Iterator

import pytest
from crc32c import crc32c

from nodes.ids import Epoch, Offset
from nodes.log.batch import read_header
from nodes.log.errors import OutOfOrderSequence
from nodes.log.log import Log, LogConfig
from nodes.log.producer_snapshots import CorruptSnapshot, decode, encode
from nodes.log.producer_state import Producers
from nodes.log.segment import Segment
from nodes.log.transactions.markers import Marker, encode_marker
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import DIRECTORY, SMALL, batch, open_log

E1 = Epoch(1)
BIG = LogConfig()


def kafkas_reading(data: bytes) -> dict[int, tuple[int, ...]]:
    """What the format's definition says: the last entry of each producer."""
    version, crc, count = struct.unpack_from(">hIi", data)
    assert version == 1
    assert crc == crc32c(data[6:])
    assert len(data) == 10 + 46 * count
    entries = {}
    for at in range(10, len(data), 46):
        producer_id, *rest = struct.unpack_from(">qhiqiqiq", data, at)
        entries[producer_id] = tuple(rest)
    return entries


def some() -> Producers:
    """A producer with seven batches, one with one, one that only has an epoch and a coordinator
    epoch, and one with an open transaction.
    """
    producers = Producers()
    for n in range(7):
        header = read_header(batch(2, producer=(9, 3, 2 * n), timestamp_ms=1000 + n))
        producers.update(header, Offset(2 * n))
    producers.update(read_header(batch(3, producer=(10, 0, 2**31 - 2))), Offset(14))
    marker = Marker(producer_id=11, producer_epoch=5, coordinator_epoch=4, committed=True)
    producers.end_transaction(read_header(encode_marker(marker, 1000)), Offset(17), marker)
    opened = batch(2, producer=(12, 0, 0), transactional=True)
    producers.update(read_header(opened), Offset(18))
    return producers


def test_the_file_has_kafkas_format() -> None:
    """Fields, CRC and order; what Kafka takes from it is each producer's last batch."""
    entries = kafkas_reading(encode(some()))
    assert entries == {
        # epoch, last sequence, last offset, offset delta, timestamp, coordinator, transaction
        9: (3, 13, 13, 1, 1006, -1, -1),
        10: (0, 0, 16, 2, 1000, -1, -1),
        11: (5, -1, -1, 0, 1000, 4, -1),
        12: (0, 1, 19, 1, 1000, -1, 18),
    }


def test_what_is_written_is_read_back() -> None:
    """With all five batches of each, so that any retry in flight is still known."""
    assert decode(encode(some())) == dict(some().items())
    assert decode(encode(Producers())) == {}


def test_damage_is_detected() -> None:
    """Every flipped bit, every cut, and anything added."""
    data = encode(some())
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1
        with pytest.raises(CorruptSnapshot):
            decode(bytes(flipped))
        with pytest.raises(CorruptSnapshot):
            decode(data[:position])
    with pytest.raises(CorruptSnapshot):
        decode(data + b"\0")


def produced(disk: MemoryDisk, count: int = 8, config: LogConfig = SMALL) -> Log:
    """A log with batches of one idempotent producer."""
    log = open_log(disk, config=config)
    for n in range(count):
        log.append_as_leader(batch(1, producer=(9, 0, n)), E1)
    return log


def snapshots(disk: MemoryDisk) -> list[str]:
    """Paths of the snapshot files."""
    return [f"{DIRECTORY}/{n}" for n in disk.listdir(DIRECTORY) if n.endswith(".snapshot")]


def test_snapshots_are_taken_at_each_roll_and_at_the_end() -> None:
    """One for each segment but the first, and one for the end; of the end only the last."""
    disk = MemoryDisk()
    log = produced(disk)
    bases = [int(n[:20]) for n in disk.listdir(DIRECTORY) if n.endswith(".log")]
    assert [int(n[-29:-9]) for n in snapshots(disk)] == bases[1:]
    log.close()
    assert [int(n[-29:-9]) for n in snapshots(disk)] == [*bases[1:], 8]
    log = open_log(disk, clean=True)
    log.append_as_leader(batch(1, producer=(9, 0, 8)), E1)
    log.close()
    assert [int(n[-29:-9]) for n in snapshots(disk)] == [*bases[1:], 9]


def test_a_retry_is_known_after_a_restart() -> None:
    """All five batches that may be in flight, after a clean stop and after a kill."""
    disk = MemoryDisk()
    produced(disk).close()
    for clean in (True, False):
        log = open_log(disk, clean=clean)
        for n in range(3, 8):
            again = log.append_as_leader(batch(1, producer=(9, 0, n)), E1)
            assert again == (n, n, True)
        with pytest.raises(OutOfOrderSequence):
            log.append_as_leader(batch(1, producer=(9, 0, 9)), E1)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "missing"])
def test_a_damaged_snapshot_is_not_used(damage: str) -> None:
    """An older one, or the batches themselves, tell the same."""
    disk = MemoryDisk()
    produced(disk).close()
    for path in snapshots(disk)[-2:]:
        data = disk.read(path)
        match damage:
            case "flip":
                disk.corrupt(path, len(data) - 30)
            case "cut":
                disk.open(path).truncate(len(data) - 1)
            case "empty":
                disk.open(path).truncate(0)
            case _:
                disk.unlink(path)
    log = open_log(disk, clean=True)
    assert log.append_as_leader(batch(1, producer=(9, 0, 5)), E1) == (5, 5, True)


def test_a_truncation_removes_later_snapshots() -> None:
    """The log grows again past the same offsets with other records."""
    disk = MemoryDisk()
    log = produced(disk)
    log.truncate_to(Offset(2))
    disk.crash()
    log = open_log(disk)
    for n in range(8):
        log.append_as_leader(batch(1, producer=(77, 0, n)), E1)
    log.flush()
    for clean in (False, True):
        assert log.producers.ids() == (9, 77)
        known = log.producers.get(9)
        assert known is not None
        assert known.batches[-1].last_offset == 1
        if clean is False:
            log.close()
            log = open_log(disk, clean=True)


def test_a_snapshot_does_not_outlive_its_records_in_a_power_loss() -> None:
    """Not even that of a closed log, whose removal changes no other name."""
    disk = MemoryDisk()
    produced(disk).close()
    log = open_log(disk, clean=True)
    log.truncate_to(Offset(7))
    disk.crash()
    assert all(int(n[-29:-9]) <= 7 for n in snapshots(disk))


def test_an_empty_log_has_no_snapshot() -> None:
    disk = MemoryDisk()
    open_log(disk).close()
    assert snapshots(disk) == []


def test_opening_after_a_clean_stop_reads_no_more_than_the_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Headers from the last index entry of the last segment on, however long the log is."""
    disk = MemoryDisk()
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
    log = open_log(disk, config=config)
    for number in range(1000):
        log.append_as_leader(batch(1, producer=(9, 0, number), value=b"v" * 50), E1)
    log.close()
    scan = Segment.scan
    headers = 0

    def counting(segment: Segment, *args: int) -> Iterator[object]:
        nonlocal headers
        for found in scan(segment, *args):
            headers += 1
            yield found

    monkeypatch.setattr(Segment, "scan", counting)
    log = open_log(disk, clean=True, config=config)
    assert (log.end_offset, log.producers.ids(), log.epochs) == (1000, (9,), ((1, 0),))
    assert headers < 10
    log = open_log(disk, recovery_point=1000, config=config)
    assert log.end_offset == 1000
    assert headers < 400  # the last segment, and the tails of the others


def test_idle_producers_are_forgotten() -> None:
    """By the time that is handed in; then any sequence of theirs is taken, as in Kafka."""
    config = LogConfig(producer_expiration_ms=1000)
    log = open_log(MemoryDisk(), config=config)
    for n in range(3):
        log.append_as_leader(batch(1, producer=(9, 0, n), timestamp_ms=5000), E1)
    log.append_as_leader(batch(1, producer=(10, 0, 0), timestamp_ms=5500), E1)
    log.expire(5999, log.end_offset)
    assert log.producers.ids() == (9, 10)
    log.expire(6000, log.end_offset)
    assert log.producers.ids() == (10,)
    with pytest.raises(OutOfOrderSequence):  # too young to have been forgotten
        log.append_as_leader(batch(1, producer=(12, 0, 3), timestamp_ms=5600), E1)
    log.append_as_leader(batch(1, producer=(9, 0, 3), timestamp_ms=6500), E1)


def test_a_truncated_log_is_as_old_as_its_new_first_batch() -> None:
    """A log that is younger than the expiration knows all its producers."""
    log = open_log(MemoryDisk(), config=LogConfig(producer_expiration_ms=1000))
    for timestamp_ms in (1000, 5000):
        log.truncate_to(Offset(0))
        log.append_as_leader(batch(1, producer=(9, 0, 0), timestamp_ms=timestamp_ms), E1)
        unknown = batch(1, producer=(12, 0, 3), timestamp_ms=timestamp_ms + 100)
        with pytest.raises(OutOfOrderSequence):
            log.append_as_leader(unknown, E1)
