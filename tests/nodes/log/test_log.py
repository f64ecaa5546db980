"""The log: appending, reading, truncating, flushing."""

import asyncio
import errno
import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from nodes.ids import Epoch, Offset
from nodes.log.batch import iter_batches, read_header
from nodes.log.errors import (
    CorruptBatch,
    EpochRegression,
    InvalidBatch,
    LogOffline,
    MessageTooLarge,
    OffsetGap,
    OffsetOutOfRange,
    OutOfOrderSequence,
)
from nodes.log.log import Log, LogConfig
from nodes.storage.disk import Disk
from nodes.storage.local import LocalDisk
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import DIRECTORY, SMALL, batch, content, open_log

E1, E2, E3 = Epoch(1), Epoch(2), Epoch(3)


@pytest.fixture(params=["memory", "local"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """Both disks behave the same."""
    return MemoryDisk() if request.param == "memory" else LocalDisk(tmp_path)


def filled(disk: Disk, batches: int = 12, *, config: LogConfig = SMALL) -> Log:
    """A log of batches of one, two, three, one... records, in several small segments."""
    log = open_log(disk, config=config)
    for number in range(batches):
        log.append_as_leader(batch(number % 3 + 1, timestamp_ms=1000 + number), E1)
    return log


def test_a_new_log_is_empty(disk: Disk) -> None:
    """Everything begins at 0, and reading at the end gives nothing."""
    log = open_log(disk)
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (0, 0, 0)
    assert (log.last_epoch, log.epochs) == (-1, ())
    assert log.read(Offset(0), 100, Offset(0)) == b""
    assert log.max_timestamp() == (-1, -1)
    assert log.offset_for_timestamp(0) is None
    log.close()


def test_a_leader_assigns_offsets_and_its_epoch(disk: Disk) -> None:
    """The stored batch differs from the sent one in base offset and epoch only."""
    log = open_log(disk)
    assert log.append_as_leader(batch(2), E1) == (0, 1, False)
    assert log.append_as_leader(batch(3), E2) == (2, 4, False)
    assert content(log) == [batch(2, epoch=1), batch(3, base_offset=2, epoch=2)]
    assert log.epochs == ((1, 0), (2, 2))
    assert log.last_epoch == 2
    log.close()


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", CorruptBatch),
        (batch()[:-1], CorruptBatch),
        (batch()[:-1] + b"\x01", CorruptBatch),
        (batch() + batch(), InvalidBatch),
        (batch() + b"x", InvalidBatch),
        (batch(base_offset=1), InvalidBatch),
        (batch(value=b"x" * 1000), MessageTooLarge),
    ],
    ids=["nothing", "torn", "crc", "two", "trailing", "base offset", "large"],
)
def test_a_leader_refuses_anything_but_a_single_valid_batch(data: bytes, error: type) -> None:
    """Each with its error, and nothing is appended."""
    log = open_log(MemoryDisk())
    with pytest.raises(error):
        log.append_as_leader(data, E1)
    assert log.end_offset == 0


def test_a_wrong_record_count_is_refused() -> None:
    """Offsets would be skipped or used twice."""
    data = bytearray(batch(2))
    struct.pack_into(">i", data, 57, 3)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    with pytest.raises(InvalidBatch, match="3 records"):
        open_log(MemoryDisk()).append_as_leader(bytes(data), E1)


def test_a_retried_batch_is_not_appended_twice(disk: Disk) -> None:
    """The duplicate is answered with its first offsets; also after a restart."""
    log = open_log(disk)
    log.append_as_leader(batch(2, producer=(5, 0, 0)), E1)
    log.append_as_leader(batch(1, producer=(5, 0, 2)), E1)
    assert log.append_as_leader(batch(2, producer=(5, 0, 0)), E1) == (0, 1, True)
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(batch(1, producer=(5, 0, 4)), E1)
    log.close()
    log = open_log(disk, clean=True)
    assert log.append_as_leader(batch(1, producer=(5, 0, 2)), E1) == (2, 2, True)
    assert log.end_offset == 3
    log.close()


def test_a_batch_is_not_a_duplicate_after_its_truncation(disk: Disk) -> None:
    """Producer state goes back with the log."""
    log = open_log(disk)
    for sequence in range(3):
        log.append_as_leader(batch(producer=(5, 0, sequence)), E1)
    log.truncate_to(Offset(1))
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(batch(producer=(5, 0, 2)), E1)
    assert log.append_as_leader(batch(producer=(5, 0, 1)), E1) == (1, 1, False)
    log.close()


def test_a_followers_files_are_its_leaders_bytes(tmp_path: Path) -> None:
    """Fetched in any pieces, with a torn end, the log files come out identical."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    leader, follower = filled(LocalDisk(tmp_path / "a")), open_log(LocalDisk(tmp_path / "b"))
    while follower.end_offset < leader.end_offset:
        data = leader.read(follower.end_offset, 250, leader.end_offset)
        torn = leader.read(follower.end_offset, 1 << 20, leader.end_offset)[: len(data) + 40]
        base = follower.end_offset
        assert follower.append_as_follower(torn) == (base, follower.end_offset - 1, False)
        assert follower.end_offset > base
    assert follower.append_as_follower(b"") == (24, 23, False)
    assert content(follower) == content(leader)
    assert (follower.epochs, follower.last_epoch) == (leader.epochs, leader.last_epoch)
    leader.close()
    follower.close()
    for path in sorted((tmp_path / "a" / DIRECTORY).iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / DIRECTORY / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (batch(base_offset=3, epoch=2), OffsetGap),
        (batch(base_offset=1, epoch=2), OffsetGap),
        (batch(base_offset=2, epoch=2) + batch(base_offset=4, epoch=2), OffsetGap),
        (batch(base_offset=2, epoch=1), EpochRegression),
        (batch(base_offset=2, epoch=3) + batch(base_offset=3, epoch=2), EpochRegression),
        (batch(base_offset=2, epoch=2)[:-1] + b"\x01", CorruptBatch),
    ],
    ids=["gap", "repeat", "inner gap", "old epoch", "inner old epoch", "crc"],
)
def test_a_follower_refuses_batches_that_do_not_continue_its_log(data: bytes, error: type) -> None:
    """Gaps, repeats, epochs that go back, damage: nothing of the whole is appended."""
    log = open_log(MemoryDisk())
    log.append_as_leader(batch(2), E2)
    with pytest.raises(error):
        log.append_as_follower(data)
    assert (log.end_offset, log.epochs) == (2, ((2, 0),))


def test_a_follower_spreads_a_large_fetch_over_segments(disk: Disk) -> None:
    """segment_bytes holds whatever size the fetch has."""
    leader = filled(MemoryDisk(), config=LogConfig())
    follower = open_log(disk)
    follower.append_as_follower(leader.read(Offset(0), 1 << 20, leader.end_offset))
    assert content(follower) == content(leader)
    logs = [name for name in disk.listdir(DIRECTORY) if name.endswith(".log")]
    assert len(logs) == 3
    for name in logs:
        assert len(disk.read(f"{DIRECTORY}/{name}")) <= SMALL.segment_bytes
    follower.close()


def test_reads_are_whole_batches_below_the_bound(disk: Disk) -> None:
    """For every offset, bound and size, against a plain list; active and sealed segments alike."""
    log = filled(disk)
    extents = []
    for stored in content(log):
        header = read_header(stored)
        extents.append((header.base_offset, header.next_offset, stored))
    for offset in range(log.end_offset + 1):
        for upper in range(log.end_offset + 1):
            for max_bytes in (0, 80, 170, 1000):
                for at_least_one in (True, False):
                    data = log.read(
                        Offset(offset), max_bytes, Offset(upper), at_least_one=at_least_one
                    )
                    wanted = [s for base, end, s in extents if end > offset and end <= upper]
                    if offset >= upper:
                        wanted = []
                    got = [data[p : p + h.size] for p, h in iter_batches(data)]
                    assert b"".join(got) == data
                    assert got == wanted[: len(got)]
                    assert len(data) <= max_bytes or (at_least_one and len(got) == 1)
                    if wanted and (at_least_one or len(wanted[0]) <= max_bytes):
                        assert got
    log.close()


def test_reads_outside_the_log_are_refused(disk: Disk) -> None:
    """Below the start and beyond the end."""
    log = filled(disk)
    log.truncate_fully(Offset(50))
    assert log.read(Offset(50), 100, Offset(60)) == b""
    for offset in (49, 51):
        with pytest.raises(OffsetOutOfRange):
            log.read(Offset(offset), 100, Offset(60))
    log.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("offset", range(25))
def test_truncation_removes_whole_batches(clean: bool, offset: int) -> None:
    """The batch that holds the offset goes; what is before stays; also after a restart."""
    disk = MemoryDisk()
    log = filled(disk)
    log.flush()
    before = content(log)
    end = log.truncate_to(Offset(offset))
    kept = [b for b in before if read_header(b).next_offset <= offset]
    assert content(log) == kept
    assert end == log.end_offset == sum(read_header(b).record_count for b in kept)
    assert log.flushed_offset == end
    log.append_as_leader(batch(2), E2)
    assert log.epochs == (((1, 0), (2, end)) if end else ((2, 0),))
    after = content(log)
    if clean:
        log.close()
    log = open_log(disk, clean=clean)
    assert content(log) == after


@pytest.mark.parametrize("kept", range(1, 20))
def test_a_truncated_segment_has_no_index_entries_of_the_tail(kept: int) -> None:
    """Positions, index entries and the largest timestamp go back with the log."""
    stamps = [1000 + number * 2 - number % 4 // 3 * 5 for number in range(20)]
    config = LogConfig(index_interval_bytes=200)
    truncated, never = MemoryDisk(), MemoryDisk()
    for disk, first in ((truncated, 20), (never, kept)):
        log = open_log(disk, config=config)
        for stamp in stamps[:first]:
            log.append_as_leader(batch(timestamp_ms=stamp), E1)
        log.truncate_to(Offset(kept))
        top = max(stamps[:kept])
        assert log.max_timestamp() == (stamps.index(top), top)
        for stamp in stamps:
            log.append_as_leader(batch(timestamp_ms=stamp), E2)
        log.close()
    for suffix in ("log", "index"):
        path = f"{DIRECTORY}/{0:020d}.{suffix}"
        assert truncated.read(path) == never.read(path)


def test_truncation_removes_epochs(disk: Disk) -> None:
    """An epoch whose records are gone is gone; one assigned at the end too."""
    log = open_log(disk)
    log.append_as_leader(batch(5), E1)
    log.append_as_leader(batch(5), E2)
    log.assign_epoch(E3, log.end_offset)
    assert log.epochs == ((1, 0), (2, 5), (3, 10))
    assert (log.last_epoch, log.end_offset_for_epoch(E2)) == (2, (2, 10))
    log.truncate_to(Offset(10))
    assert log.epochs == ((1, 0), (2, 5))
    log.truncate_to(Offset(7))
    assert log.epochs == ((1, 0),)
    assert log.end_offset_for_epoch(E1) == (1, 5)
    log.close()


def test_a_full_truncation_leaves_an_empty_log_at_the_new_start(disk: Disk) -> None:
    """Nothing is left but the new start; it survives a restart; any first sequence is taken."""
    log = filled(disk)
    log.truncate_fully(Offset(100))
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (100, 100, 100)
    assert log.epochs == ()
    log.append_as_leader(batch(2, producer=(5, 0, 7)), E2)
    log.close()
    log = open_log(disk, clean=True)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (100, 102, 2)
    assert log.truncate_to(Offset(40)) == 40
    assert (log.start_offset, log.end_offset) == (40, 40)
    log.close()


def test_an_assigned_epoch_survives_a_clean_restart(disk: Disk) -> None:
    """It is in no batch, only in the checkpoint."""
    log = filled(disk)
    log.assign_epoch(E3, log.end_offset)
    log.close()
    log = open_log(disk, clean=True)
    assert log.epochs == ((1, 0), (3, 24))
    with pytest.raises(EpochRegression):
        log.append_as_leader(batch(), Epoch(0))
    log.close()


def test_time_lookups_find_the_first_record_at_or_after(disk: Disk) -> None:
    """Against a plain list, in every segment, after a restart too."""
    log = open_log(disk)
    stamps: list[int] = []
    for number in range(12):
        stamp = 1000 + number * 10 - (35 if number % 4 == 3 else 0)
        stamps += [stamp] * (number % 3 + 1)
        log.append_as_leader(batch(number % 3 + 1, timestamp_ms=stamp), E1)
    for _ in range(2):
        for asked in range(990, 1120):
            found = [(o, s) for o, s in enumerate(stamps) if s >= asked]
            assert log.offset_for_timestamp(asked) == (found[0] if found else None)
        assert log.max_timestamp() == (stamps.index(1100), 1100)
        log.close()
        log = open_log(disk, clean=True)
    log.close()


def test_flushing_makes_the_end_durable_and_returns_it() -> None:
    """Both flushes; what came later is lost with the power."""
    disk = MemoryDisk()
    log = open_log(disk)
    log.append_as_leader(batch(2), E1)
    assert log.flushed_offset == 0
    assert log.flush() == 2
    log.append_as_leader(batch(2), E1)
    assert asyncio.run(log.flush_async()) == 4
    log.append_as_leader(batch(2), E1)
    assert log.flushed_offset == 4
    disk.crash()
    assert open_log(disk).end_offset == 4


def test_a_flush_does_not_cover_appends_during_it() -> None:
    """Nor what replaced a truncated tail meanwhile; callers that wait share the next sync."""
    disk = MemoryDisk()

    async def scenario() -> None:
        log = filled(disk)
        first = asyncio.ensure_future(log.flush_async())
        await asyncio.sleep(0)
        end = log.end_offset
        log.append_as_leader(batch(), E1)
        second, third = (asyncio.ensure_future(log.flush_async()) for _ in range(2))
        assert await first == end
        assert await second == await third == end + 1
        log.append_as_leader(batch(5), E1)
        fourth = asyncio.ensure_future(log.flush_async())
        await asyncio.sleep(0)
        log.truncate_to(Offset(3))
        for _ in range(30):
            log.append_as_leader(batch(), E2)
        assert await fourth == log.flushed_offset == 3
        assert await log.flush_async() == log.end_offset

    asyncio.run(scenario())


def test_a_log_refuses_changes_after_a_failed_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-10778: after a failed write nobody knows what is on disk."""
    log = filled(MemoryDisk(), config=LogConfig())
    end = log.end_offset

    def fail(data: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(log._segments.active.file, "append", fail)
    with pytest.raises(OSError, match="input/output"):
        log.append_as_leader(batch(), E1)
    monkeypatch.undo()
    assert "input/output" in log.offline
    for attempt in (
        lambda: log.append_as_leader(batch(), E1),
        lambda: log.append_as_follower(batch(base_offset=end, epoch=1)),
        lambda: log.truncate_to(Offset(0)),
        lambda: log.expire(10_000, end),
        lambda: log.advance_start(Offset(1)),
        log.flush,
        lambda: asyncio.run(log.flush_async()),
    ):
        with pytest.raises(LogOffline, match="input/output"):
            attempt()
    assert log.end_offset == end
    assert len(content(log)) == 12
    log.close()
    assert log.flushed_offset == 0


def test_a_failed_sync_takes_the_log_offline_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel forgets a failed write-back: a second sync would succeed and mean nothing."""
    log = filled(MemoryDisk(), config=LogConfig())

    def fail() -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(log._segments.active.file, "sync", fail)
    with pytest.raises(OSError, match="input/output"):
        asyncio.run(log.flush_async())
    monkeypatch.undo()
    with pytest.raises(LogOffline):
        log.flush()
    assert log.flushed_offset == 0


def test_a_segment_is_filled_to_the_byte() -> None:
    """segment.bytes is the largest size of a segment."""
    size = len(batch())
    for spare, segments in ((0, 1), (-1, 2)):
        log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=3 * size + spare))
        for _ in range(3):
            log.append_as_leader(batch(), E1)
        assert len(log._segments.all) == segments
