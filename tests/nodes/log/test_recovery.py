"""Opening a damaged log: what is cut, and what is refused."""

import random
import struct

import pytest

from nodes.ids import Epoch, Offset
from nodes.log.batch import read_header
from nodes.log.errors import LogCorrupt
from nodes.log.log import Log, LogConfig
from nodes.storage.memory import PAGE_BYTES, MemoryDisk
from tests.support.nodes.batches import DIRECTORY, SMALL, batch, content, open_log

E1 = Epoch(1)
FIRST = f"{DIRECTORY}/{0:020d}.log"
BIG = LogConfig()


def written(count: int = 6, *, config: LogConfig = BIG, value: bytes = b"v") -> MemoryDisk:
    """A disk with a log of single-record batches whose process died."""
    disk = MemoryDisk()
    log = open_log(disk, config=config)
    for number in range(count):
        log.append_as_leader(batch(value=value, timestamp_ms=1000 + number), E1)
    return disk


def size_of_one(value: bytes = b"v") -> int:
    """Bytes of each of those batches."""
    return len(batch(value=value))


def cut_file(disk: MemoryDisk, path: str, size: int) -> None:
    """Cut a file's tail off."""
    disk.open(path).truncate(size)


def overwrite(disk: MemoryDisk, path: str, position: int, data: bytes) -> None:
    """Change bytes in the middle of a file."""
    old = disk.read(path)
    disk.write_atomic(path, old[:position] + data + old[position + len(data) :])


def test_an_undamaged_log_is_kept_whole_and_made_durable() -> None:
    """A dead process loses nothing; and what recovery claims as flushed survives the power."""
    disk = written()
    log = open_log(disk, config=BIG)
    assert (log.end_offset, log.flushed_offset) == (6, 6)
    assert log.recovery.cut_at is None
    assert log.recovery.validated_segments == 1
    disk.crash()
    assert open_log(disk, config=BIG).end_offset == 6


@pytest.mark.parametrize("torn_bytes", [1, 20, 60, 61, 65])
def test_a_torn_tail_is_truncated(torn_bytes: int) -> None:
    """An incomplete last batch goes, however much of it is there; the rest stays."""
    disk, one = written(), size_of_one()
    cut_file(disk, FIRST, 5 * one + torn_bytes)
    log = open_log(disk, config=BIG)
    assert (log.end_offset, log.recovery.cut_at, log.recovery.cut_bytes) == (5, 5, torn_bytes)
    assert log.recovery.reason
    log.append_as_leader(batch(), E1)
    assert len(content(log)) == 6
    assert open_log(disk, config=BIG).end_offset == 6


def test_a_last_batch_with_a_bad_crc_is_truncated() -> None:
    """Nothing follows it: an interrupted write explains it. Nor does the log's epoch survive it."""
    disk, one = written(5), size_of_one()
    open_log(disk, config=BIG).append_as_leader(batch(value=b"v"), Epoch(7))
    disk.corrupt(FIRST, 6 * one - 1)
    log = open_log(disk, config=BIG)
    assert (log.end_offset, log.recovery.cut_at) == (5, 5)
    assert log.epochs == ((1, 0),)


@pytest.mark.parametrize("position", [8, 16, 25, 65])
def test_damage_before_valid_batches_is_refused(position: int) -> None:
    """A flipped bit in length, magic, header or record of an early batch; the file stays."""
    disk, one = written(), size_of_one()
    disk.corrupt(FIRST, 2 * one + position)
    before = disk.read(FIRST)
    with pytest.raises(
        LogCorrupt, match=f"{FIRST}, position {2 * one}, offset 2: .*position {3 * one}"
    ):
        open_log(disk, config=BIG)
    assert disk.read(FIRST) == before


def test_a_gap_in_the_offsets_is_refused() -> None:
    """The base offset is outside the CRC; continuity guards it."""
    disk, one = written(), size_of_one()
    overwrite(disk, FIRST, 2 * one, struct.pack(">q", 3))
    with pytest.raises(LogCorrupt, match="offset 3 instead of 2"):
        open_log(disk, config=BIG)


def test_damage_in_a_cleanly_closed_log_is_refused() -> None:
    """A tail cut silently there would be lost by a replica that stays in sync."""
    disk, one = written(), size_of_one()
    open_log(disk, config=BIG).close()
    cut_file(disk, FIRST, 5 * one + 30)
    with pytest.raises(LogCorrupt, match="closed cleanly"):
        open_log(disk, config=BIG, clean=True)


def segments(disk: MemoryDisk) -> list[str]:
    """Paths of the log files."""
    return [f"{DIRECTORY}/{n}" for n in disk.listdir(DIRECTORY) if n.endswith(".log")]


def test_damage_before_later_segments_is_refused() -> None:
    """The last batch of a segment that others follow is the middle of the log."""
    disk = written(20, config=SMALL)
    second = segments(disk)[1]
    disk.corrupt(second, len(disk.read(second)) - 1)
    with pytest.raises(LogCorrupt, match="in later segments"):
        open_log(disk)


def test_a_missing_or_cut_segment_below_the_recovery_point_is_refused() -> None:
    """What was flushed cannot have been lost by a crash."""
    disk = written(20, config=SMALL)
    second = segments(disk)[1]
    cut_file(disk, second, len(disk.read(second)) - 10)
    with pytest.raises(LogCorrupt, match="below the recovery point"):
        open_log(disk, recovery_point=20)
    disk.unlink(second)
    with pytest.raises(LogCorrupt, match="the next segment begins at offset"):
        open_log(disk, recovery_point=20)


def test_a_short_segment_above_the_recovery_point_ends_the_log() -> None:
    """Unflushed, a file may end early after a power loss, although later ones were written."""
    disk = written(20, config=SMALL)
    second = segments(disk)[1]
    cut_file(disk, second, size_of_one() + 10)
    base = int(second[-24:-4])
    log = open_log(disk)
    assert (log.end_offset, log.recovery.cut_at) == (base + 1, base + 1)
    assert segments(disk)[1:] == [second]


def test_pages_that_were_never_written_back_end_the_log() -> None:
    """Unflushed pages are written in any order: zeros before intact batches are no corruption."""
    value = b"v" * 500
    disk, one = written(30, value=value), size_of_one(value)
    overwrite(disk, FIRST, PAGE_BYTES, bytes(PAGE_BYTES))
    with pytest.raises(LogCorrupt):
        open_log(disk, config=BIG, recovery_point=PAGE_BYTES // one + 1)
    log = open_log(disk, config=BIG)
    assert log.end_offset == PAGE_BYTES // one
    assert "magic" in log.recovery.reason or "CRC" in log.recovery.reason


def test_zeros_from_a_batch_to_the_end_of_its_page_end_the_log() -> None:
    """The page was written back once, when the batch was not yet there."""
    value = b"v" * 500
    disk, one = written(30, value=value), size_of_one(value)
    overwrite(disk, FIRST, 3 * one, bytes(PAGE_BYTES - 3 * one))
    assert open_log(disk, config=BIG).end_offset == 3


def test_zeros_up_to_the_end_of_a_segment_end_the_log() -> None:
    """Its last page is a part of one."""
    disk, one = written(20, config=SMALL), size_of_one()
    second = segments(disk)[1]
    overwrite(disk, second, one, bytes(len(disk.read(second)) - one))
    assert open_log(disk).end_offset == int(second[-24:-4]) + 1


def test_a_page_that_was_never_written_back_may_hold_the_zeros_of_an_intact_batch() -> None:
    """Seven of its offset's, which are all that the batch has there."""
    other = b"v" * 500
    value = b"v" * (500 + PAGE_BYTES - 7 - size_of_one(other))
    disk = written(4, value=value)
    assert size_of_one(value) == PAGE_BYTES - 7
    overwrite(disk, FIRST, 0, bytes(PAGE_BYTES))
    assert open_log(disk, config=BIG).end_offset == 0


def test_only_segments_from_the_recovery_point_on_are_validated() -> None:
    """The point of a recovery point: a restart reads what may be damaged, not everything.

    The indexes of a segment that ends at the recovery point may be damaged.
    """
    disk = written(20, config=SMALL)
    third = int(segments(disk)[2][-24:-4])
    after = len(segments(disk)) - 2
    assert open_log(disk, recovery_point=third + 1).recovery.validated_segments == after
    assert open_log(disk, recovery_point=third).recovery.validated_segments == after + 1
    assert open_log(disk, clean=True).recovery.validated_segments == 0


@pytest.mark.parametrize("stop", ["after the roll", "after a flush", "closed"])
def test_indexes_of_a_segment_that_was_flushed_before_it_was_sealed_survive_the_power(
    stop: str,
) -> None:
    """Nothing of such a segment is left to flush but its indexes. (Found by swarm seed 80931.)"""
    config = LogConfig(segment_bytes=1000, index_interval_bytes=0)
    for seed in range(150):
        disk = MemoryDisk()
        log = open_log(disk, config=config)
        while len(segments(disk)) < 3:
            log.flush()
            log.append_as_leader(batch(timestamp_ms=1000 + log.end_offset), E1)
        if stop == "after a flush":
            log.flush()
        recovery_point = log.flushed_offset
        if stop == "closed":
            log.close()
        sealed = [name[:-4] for name in segments(disk)[:-1]]
        indexes = [stem + suffix for stem in sealed for suffix in (".index", ".timeindex")]
        written = [disk.read(name) for name in indexes]
        disk.crash(random.Random(seed))
        open_log(disk, clean=stop == "closed", config=config, recovery_point=recovery_point)
        assert [disk.read(name) for name in indexes] == written


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "short", "garbage"])
def test_indexes_are_rebuilt(clean: bool, suffix: str, damage: str) -> None:
    """Whatever an index file says, what is read is what the log file says.

    After a clean stop wrong entries in an index of the right size are noticed only when used.
    """
    disk = MemoryDisk()
    config = LogConfig(segment_bytes=1000, index_interval_bytes=100)
    log = open_log(disk, config=config)
    for number in range(20):
        log.append_as_leader(batch(number % 3 + 1, timestamp_ms=1000 + number), E1)
    log.close()
    names = [f"{DIRECTORY}/{n}" for n in disk.listdir(DIRECTORY) if n.endswith("." + suffix)]
    good = [disk.read(name) for name in names]
    assert len(good[0]) >= 16
    match damage:
        case "missing":
            disk.unlink(names[0])
        case "short":
            cut_file(disk, names[0], 5)
        case _:
            overwrite(disk, names[0], 0, b"\x01\xff\xff\xff")
    log = open_log(disk, clean=clean, config=config)
    noticed = not (clean and damage == "garbage")
    assert log.recovery.rebuilt_indexes == noticed
    assert log.offset_for_timestamp(1003) == (6, 1003)
    for offset in range(log.end_offset):
        header = read_header(log.read(Offset(offset), 1, log.end_offset))
        assert header.base_offset <= offset <= header.last_offset
    log.close()
    if noticed:
        assert [disk.read(name) for name in names] == good


def test_index_files_without_their_log_are_removed() -> None:
    """A crash between the removals of a segment's files leaves them."""
    disk = written()
    disk.write_atomic(f"{DIRECTORY}/{99:020d}.index", b"x")
    open_log(disk, config=BIG)
    assert not disk.exists(f"{DIRECTORY}/{99:020d}.index")


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"nonsense",
        b"0\n1\n5 2\n",
        b"0\n2\n1 0\n9 77\n",
        b"0\n1\n0 6\n",
        b"0\n3\n1 0\n2 4\n3 4\n",
    ],
)
def test_epochs_are_rebuilt_from_the_batches(stored: bytes, clean: bool) -> None:
    """A checkpoint that is damaged, ahead of the log or behind it does not matter."""
    disk = written(4)
    log = open_log(disk, config=BIG)
    log.append_as_leader(batch(2), Epoch(3))
    log.close()
    disk.write_atomic(f"{DIRECTORY}/leader-epoch-checkpoint", stored)
    log = open_log(disk, config=BIG, clean=clean)
    assert log.epochs == ((1, 0), (3, 4))
    assert disk.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n1 0\n3 4\n"


def test_a_log_that_does_not_open_closes_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusing a log must not leak descriptors."""
    disk, one = written(), size_of_one()
    disk.corrupt(FIRST, 2 * one + 30)
    closed: list[int] = []
    opened: list[int] = []
    from nodes.storage.memory import MemoryFile

    monkeypatch.setattr(MemoryFile, "close", lambda self: closed.append(id(self)))
    original = MemoryDisk.open

    def counting(self: MemoryDisk, path: str, *, create: bool = False) -> MemoryFile:
        file = original(self, path, create=create)
        opened.append(id(file))
        return file

    monkeypatch.setattr(MemoryDisk, "open", counting)
    with pytest.raises(LogCorrupt):
        Log.open(disk, DIRECTORY, BIG, clean=False)
    assert sorted(closed) == sorted(opened) != []


@pytest.mark.parametrize("clean", [True, False])
def test_the_first_segment_of_an_empty_directory_survives_the_power(clean: bool) -> None:
    """A crash may leave a directory without files: the new file's name needs a sync as well."""
    disk = MemoryDisk()
    disk.makedirs(DIRECTORY)
    disk.sync_dir("")
    log = open_log(disk, config=BIG, clean=clean)
    log.append_as_leader(batch(), E1)
    log.flush()
    disk.crash()
    assert open_log(disk, config=BIG).end_offset == 1


def test_a_new_log_needs_no_validation() -> None:
    """There is nothing to read, and nothing to sync, whatever end the node had."""
    log = open_log(MemoryDisk(), config=BIG, clean=False)
    assert log.recovery.validated_segments == 0


@pytest.mark.parametrize(
    "rows", ["1 0\n2 2\n3 2\n5 3\n", "1 0\n3 2\n2 3\n5 3\n", "1 0\n2 3\n5 2\n"]
)
def test_epochs_out_of_order_are_read_from_the_batches(rows: str) -> None:
    """No log writes two epochs that begin at one offset, or one that begins before an older one:
    the file is damaged."""
    disk = written(3)
    log = open_log(disk, config=BIG)
    log.append_as_leader(batch(), Epoch(5))
    log.close()
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    disk.write_atomic(path, f"0\n{rows.count(chr(10))}\n{rows}".encode())
    assert open_log(disk, config=BIG, clean=True).epochs == ((1, 0), (5, 3))


@pytest.mark.parametrize("epochs", [((1, 0), (2, 3), (3, 4)), ((5, 0), (6, 3), (9, 4))])
def test_an_epoch_without_records_is_kept_by_a_clean_stop(
    epochs: tuple[tuple[int, int], ...],
) -> None:
    """Only the file has it. Epochs may be lower or higher than the offsets at which they begin."""
    disk = MemoryDisk()
    log = open_log(disk, config=BIG)
    for epoch in (epochs[0], epochs[0], epochs[0], epochs[1]):
        log.append_as_leader(batch(), Epoch(epoch[0]))
    log.close()
    rows = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
    disk.write_atomic(f"{DIRECTORY}/leader-epoch-checkpoint", f"0\n3\n{rows}".encode())
    assert open_log(disk, config=BIG, clean=True).epochs == epochs


def test_an_epoch_without_records_is_forgotten_after_a_kill() -> None:
    """It may be older than a truncation to its start."""
    disk = written(20, config=SMALL)
    last = segments(disk)[-1]
    cut_file(disk, last, 0)
    end = int(last[-24:-4])
    stored = f"0\n2\n1 0\n2 {end}\n".encode()
    disk.write_atomic(f"{DIRECTORY}/leader-epoch-checkpoint", stored)
    log = open_log(disk, recovery_point=end)
    assert (log.end_offset, log.epochs) == (end, ((1, 0),))


@pytest.mark.parametrize("start", [1 << 32, 3 << 32])
def test_damage_before_valid_batches_is_refused_at_high_offsets(start: int) -> None:
    """Batches behind the damage are searched for by the upper half of their offsets."""
    disk = MemoryDisk()
    log = Log.open(disk, DIRECTORY, BIG, clean=True, log_start=Offset(start))
    for number in range(6):
        log.append_as_leader(batch(value=b"v", timestamp_ms=1000 + number), E1)
    disk.corrupt(f"{DIRECTORY}/{start:020d}.log", size_of_one() + 65)
    with pytest.raises(LogCorrupt):
        Log.open(disk, DIRECTORY, BIG, clean=False, log_start=Offset(start))
