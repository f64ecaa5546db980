"""Where a log begins: retention, a start that is moved, and what a restart makes of it."""

import dataclasses

import pytest

from nodes.ids import Epoch, Offset
from nodes.log.batch import read_header
from nodes.log.errors import OffsetOutOfRange
from nodes.log.log import Log, LogConfig
from nodes.log.retention import SegmentInfo, expired
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import DIRECTORY, SMALL, batch, content, open_log

E1, E2 = Epoch(1), Epoch(2)
DAY = 86_400_000


def extents(*parts: tuple[int, int]) -> list[SegmentInfo]:
    """Segments of ten records each: (size, largest timestamp)."""
    return [SegmentInfo(Offset(10 * n + 10), size, stamp) for n, (size, stamp) in enumerate(parts)]


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "high_watermark", "gone"),
    [
        (-1, -1, 99, 0),
        (50, -1, 99, 2),  # the third is of 140, at 200
        (1000, -1, 99, 0),
        (0, -1, 99, 4),
        (0, -1, 30, 3),
        (0, -1, 29, 2),
        (0, -1, 0, 0),
        (-1, 400, 99, 0),
        (-1, 399, 99, 0),  # removing one would leave less
        (-1, 300, 99, 1),
        (-1, 0, 99, 4),
        (-1, 0, 15, 1),
        (50, 300, 99, 2),
    ],
)
def test_the_expected_segments_expire(
    retention_ms: int, retention_bytes: int, high_watermark: int, gone: int
) -> None:
    """By age or size, whichever says more; never above the high watermark."""
    segments = extents((100, 100), (100, 120), (100, 160), (100, 130))
    assert (
        expired(
            segments,
            now_ms=200,
            high_watermark=Offset(high_watermark),
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
        )
        == gone
    )


def test_an_unexpired_segment_keeps_all_later_segments() -> None:
    """Age removes from the start only; records without a time never grow old."""

    def gone(*stamps: int) -> int:
        return expired(
            extents(*((1, stamp) for stamp in stamps)),
            now_ms=1000,
            high_watermark=Offset(99),
            retention_ms=100,
            retention_bytes=-1,
        )

    assert gone(1, 950, 1) == 1
    assert gone(-1, 1) == 0
    assert gone(5000, 1) == 0


def aged(disk: MemoryDisk, config: LogConfig = SMALL) -> Log:
    """A log of several segments with a record per day."""
    log = open_log(disk, config=config)
    for day in range(20):
        log.append_as_leader(batch(timestamp_ms=day * DAY), E1 if day < 10 else E2)
    return log


def test_expiring_by_age_moves_the_start() -> None:
    """Whole segments go; epochs and lookups begin with what is left; again does nothing."""
    disk = MemoryDisk()
    log = aged(disk, dataclasses.replace(SMALL, retention_ms=5 * DAY, segment_ms=100 * DAY))
    assert log.expire(20 * DAY, Offset(0)) == 0
    removed = log.expire(20 * DAY, log.end_offset)
    assert removed > 2
    assert 10 < log.start_offset <= 15
    assert log.epochs == ((2, log.start_offset),)
    assert len(content(log)) == 20 - log.start_offset
    assert log.offset_for_timestamp(0) == (log.start_offset, log.start_offset * DAY)
    assert log.expire(20 * DAY, log.end_offset) == 0
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(log.start_offset - 1), 100, log.end_offset)
    again = open_log(disk)
    assert (again.start_offset, again.epochs) == (log.start_offset, log.epochs)


def test_a_fully_expired_log_is_empty_and_accepts_appends() -> None:
    """As in Kafka the active segment goes too, after a roll."""
    disk = MemoryDisk()
    log = aged(disk, dataclasses.replace(SMALL, retention_ms=DAY))
    assert log.expire(400 * DAY, log.end_offset) > 0
    assert (log.start_offset, log.end_offset, log.size) == (20, 20, 0)
    log.append_as_leader(batch(timestamp_ms=400 * DAY), E2)
    log.close()
    log = open_log(disk, clean=True)
    assert (log.start_offset, log.end_offset, log.epochs) == (20, 21, ((2, 20),))


def test_expiry_by_size_keeps_retention_bytes() -> None:
    """And sizes change with `configure`, live."""
    log = aged(MemoryDisk())
    whole = log.size
    assert log.expire(0, log.end_offset) == 0
    log.configure(dataclasses.replace(SMALL, retention_bytes=whole // 2))
    assert log.expire(0, log.end_offset) > 0
    assert whole // 2 <= log.size < whole // 2 + SMALL.segment_bytes


def test_a_call_removes_a_bounded_number_of_segments() -> None:
    """The loop waits for each; the caller asks again."""
    log = open_log(MemoryDisk(), config=dataclasses.replace(SMALL, segment_bytes=1))
    for _ in range(40):
        log.append_as_leader(batch(), E1)
    log.configure(dataclasses.replace(SMALL, retention_bytes=0))
    assert [log.expire(0, log.end_offset) for _ in range(3)] == [32, 8, 0]


def test_segments_roll_by_age() -> None:
    """By the records' own times while appending, for both roles; by the clock when idle."""
    config = LogConfig(segment_ms=DAY)
    leader, follower = MemoryDisk(), MemoryDisk()
    log, copy = open_log(leader, config=config), open_log(follower, config=config)
    for hours in (0, 10, 24, 25, 26, 60):
        log.append_as_leader(batch(timestamp_ms=hours * DAY // 24), E1)
    copy.append_as_follower(b"".join(content(log)))
    for disk in (leader, follower):
        names = [name for name in disk.listdir(DIRECTORY) if name.endswith(".log")]
        assert [int(name[:20]) for name in names] == [0, 3, 5]
    log.expire(61 * DAY // 24, log.end_offset)
    assert leader.listdir(DIRECTORY).count(f"{6:020d}.log") == 0
    log.expire(100 * DAY // 24, log.end_offset)
    assert leader.listdir(DIRECTORY).count(f"{6:020d}.log") == 1


@pytest.mark.parametrize("start", [1, 4, 10, 19, 20])
def test_a_start_that_was_moved_holds_after_a_restart(start: int) -> None:
    """Records below it are gone for every reader, in the middle of a segment too."""
    disk = MemoryDisk()
    log = aged(disk)
    log.advance_start(Offset(start))
    log.advance_start(Offset(start - 1))  # it does not go back
    with pytest.raises(OffsetOutOfRange):
        log.advance_start(Offset(21))
    for clean in (False, True, False):
        assert log.start_offset == start
        assert [read_header(b).base_offset for b in content(log)] == list(range(start, 20))
        if start < 20:  # the epoch of no record is not known after a crash
            assert log.epochs[0] == (1 if start < 10 else 2, start)
        assert log.max_timestamp() == ((19, 19 * DAY) if start < 20 else (-1, -1))
        if start < 20:
            assert log.offset_for_timestamp(0) == (start, start * DAY)
        with pytest.raises(OffsetOutOfRange):
            log.read(Offset(start - 1), 100, log.end_offset)
        if clean is False:
            log.close()
        log = Log.open(
            disk, DIRECTORY, SMALL, clean=not clean, recovery_point=Offset(20),
            log_start=Offset(start),
        )  # fmt: skip


def test_a_log_that_ends_below_its_start_is_empty_at_the_start() -> None:
    """As in Kafka: what is left was deleted, and what it adjoined was lost."""
    disk = MemoryDisk()
    aged(disk)
    log = Log.open(disk, DIRECTORY, SMALL, clean=False, log_start=Offset(30))
    assert (log.start_offset, log.end_offset, log.epochs) == (30, 30, ())
    assert disk.listdir(DIRECTORY).count(f"{0:020d}.log") == 0


def test_a_log_without_records_knows_the_epoch_of_the_last_one() -> None:
    """Also after a kill. Otherwise its leader could not see that the two diverge (seed 102446)."""
    disk = MemoryDisk()
    log = aged(disk, dataclasses.replace(SMALL, retention_ms=5 * DAY))
    while log.expire(60 * DAY, log.end_offset):
        pass
    assert (log.start_offset, log.end_offset) == (20, 20)
    for clean in (True, False, False):
        assert log.last_epoch == 2
        if clean:
            log.close()
        log = open_log(disk, clean=clean, recovery_point=20)
    assert log.last_epoch == 2
    log.append_as_leader(batch(timestamp_ms=60 * DAY), Epoch(3))
    assert log.epochs == ((3, 20),)


def test_a_truncation_below_the_start_leaves_an_empty_log() -> None:
    """A start never lies beyond the end."""
    log = aged(MemoryDisk())
    log.advance_start(Offset(12))
    assert log.truncate_to(Offset(12)) == 12
    assert (log.start_offset, log.end_offset) == (12, 12)
    assert log.truncate_to(Offset(5)) == 5
    assert (log.start_offset, log.end_offset) == (5, 5)


def test_a_truncation_inside_the_first_batch_takes_the_start_back() -> None:
    """The batch is removed whole, with the records before the start."""
    log = open_log(MemoryDisk())
    log.append_as_leader(batch(5), E1)
    log.advance_start(Offset(2))
    assert log.truncate_to(Offset(3)) == 0
    assert (log.start_offset, log.end_offset) == (0, 0)


def test_a_segment_of_1970_expires_and_one_without_times_does_not() -> None:
    """The timestamp 0 is one; -1 is none."""
    segments = extents((100, 0), (100, -1), (100, 0))
    found = expired(
        segments, now_ms=200, high_watermark=Offset(99), retention_ms=50, retention_bytes=-1
    )
    assert found == 1
