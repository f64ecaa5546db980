"""The logs on a broker's disk and their checkpoints."""

import asyncio
import errno
from uuid import UUID

import pytest

from nodes.ids import Epoch, Offset, TopicPartition
from nodes.log.checkpoints import (
    CLEANER_OFFSETS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    REPLICATION_OFFSETS,
    CheckpointError,
    OffsetCheckpoint,
    PartitionMetadata,
)
from nodes.log.config import LogConfig
from nodes.log.log import Log
from nodes.server.replicas.log_directory import LogDirectory
from nodes.storage.memory import MemoryDisk, MemoryFile
from tests.support.nodes.batches import batch

T0 = TopicPartition("t", 0)


def with_log(disk: MemoryDisk, records: int) -> None:
    log = Log.open(disk, "t-0", LogConfig(), clean=True)
    for _ in range(records):
        log.append_as_leader(batch(1), Epoch(0))
    log.flush()
    PartitionMetadata(topic_id=UUID(int=1)).write(disk, "t-0")


def recovered(disk: MemoryDisk) -> LogDirectory:
    logs = LogDirectory(disk, clean=False)
    asyncio.run(logs.recover(LogConfig()))
    return logs


def test_recovery_lowers_a_recovery_point_above_the_log_end() -> None:
    """Otherwise later records would not be validated after the next crash."""
    disk = MemoryDisk()
    with_log(disk, 3)
    OffsetCheckpoint(disk, RECOVERY_POINTS).write({T0: Offset(9)})
    recovered(disk)
    disk.crash()
    assert OffsetCheckpoint(disk, RECOVERY_POINTS).read() == {T0: 3}


def test_recovery_lowers_a_high_watermark_above_the_log_end() -> None:
    """Otherwise later, uncommitted records would count as committed after the next crash."""
    disk = MemoryDisk()
    with_log(disk, 3)
    OffsetCheckpoint(disk, REPLICATION_OFFSETS).write({T0: Offset(9)})
    assert recovered(disk).high_watermarks == {T0: 3}
    with_log(disk, 4)
    disk.crash()
    assert recovered(disk).high_watermarks == {T0: 3}


@pytest.mark.parametrize("left", [None, b"", bytes(43), b"version: 0\ntopic_id: gAAA"])
@pytest.mark.parametrize("flushed", [False, True])
def test_log_that_was_never_flushed_and_lost_its_topic_id_is_set_aside_without_a_mark(
    left: bytes | None, *, flushed: bool
) -> None:
    """Kept, without the duty to be fetched anew: the power took no more than it takes elsewhere.

    A log that was flushed has had its topic's id made durable before: it is damaged.
    """
    disk = MemoryDisk()
    with_log(disk, 3)
    disk.unlink("t-0/partition.metadata")
    if left is not None:
        disk.write_atomic("t-0/partition.metadata", left)
    if flushed:
        OffsetCheckpoint(disk, RECOVERY_POINTS).write({T0: Offset(1)})
    logs = recovered(disk)
    hosted = logs.find(T0)
    if flushed:
        assert hosted is not None
        assert hosted.topic_id is None
        logs.keep_aside(T0)  # as soon as the metadata log is known
    assert logs.find(T0) is None
    assert disk.exists("t-0.1-corrupt")
    assert logs.must_refetch(T0) is flushed


@pytest.mark.parametrize(("recovery_point", "flushed"), [(0, False), (7, False), (8, True)])
def test_log_that_began_at_its_leaders_start_was_flushed_only_beyond_it(
    recovery_point: int, *, flushed: bool
) -> None:
    """Its start is its recovery point before it has records: that is no sign of a flush."""
    disk = MemoryDisk()
    new = Log.open(disk, "t-0", LogConfig(), clean=True)
    new.truncate_fully(Offset(7))
    for _ in range(2):
        new.append_as_leader(batch(1), Epoch(0))
    OffsetCheckpoint(disk, RECOVERY_POINTS).write({T0: Offset(recovery_point)})
    logs = recovered(disk)
    if flushed:
        logs.keep_aside(T0)
    assert logs.find(T0) is None
    assert disk.exists("t-0.1-corrupt")
    assert logs.must_refetch(T0) is flushed


def test_truncation_lowers_a_high_watermark_above_the_log_end() -> None:
    """After an unclean election a follower may have to truncate committed records."""
    disk = MemoryDisk()
    with_log(disk, 3)
    logs = recovered(disk)
    asyncio.run(logs.checkpoint_high_watermarks({T0: Offset(3)}))
    hosted = logs.find(T0)
    assert hosted is not None
    hosted.log.truncate_to(Offset(1))
    logs.after_truncation()
    assert OffsetCheckpoint(disk, REPLICATION_OFFSETS).read() == {T0: 1}


@pytest.mark.parametrize("path", [RECOVERY_POINTS, REPLICATION_OFFSETS])
def test_damaged_optional_checkpoint_does_not_stop_the_node(path: str) -> None:
    """Then all logs are validated, and the high watermark begins at the log start."""
    disk = MemoryDisk()
    with_log(disk, 3)
    disk.write_atomic(path, b"")
    logs = recovered(disk)
    hosted = logs.find(T0)
    assert hosted is not None
    assert hosted.log.end_offset == 3


def test_damaged_log_start_checkpoint_stops_the_node() -> None:
    """Otherwise deleted records would be back."""
    disk = MemoryDisk()
    with_log(disk, 3)
    disk.write_atomic(LOG_START_OFFSETS, b"")
    with pytest.raises(CheckpointError, match=LOG_START_OFFSETS):
        recovered(disk)


def test_new_log_has_no_offsets_of_a_deleted_log_of_its_name() -> None:
    """Neither its start nor its recovery point, also if it was deleted while the node was down."""
    for look in (True, False):
        disk = MemoryDisk()
        with_log(disk, 3)
        for path in (RECOVERY_POINTS, LOG_START_OFFSETS, REPLICATION_OFFSETS):
            OffsetCheckpoint(disk, path).write({T0: Offset(3)})
        if look:
            logs = recovered(disk)
            logs.remove(T0)
        else:
            Log.open(disk, "t-0", LogConfig(), clean=True).delete()
            logs = recovered(disk)
        assert T0 not in logs.high_watermarks
        assert logs.create(T0, LogConfig()).log.start_offset == 0
        disk.crash()
        for path in (RECOVERY_POINTS, LOG_START_OFFSETS, REPLICATION_OFFSETS):
            assert OffsetCheckpoint(disk, path).read() == {}


class FullDisk(MemoryDisk):
    """No new file can be made once it is `full`."""

    full = False

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if create and self.full:
            raise OSError(errno.ENOSPC, "no space left")
        return super().open(path, create=create)


def test_failed_log_is_reported_at_once() -> None:
    """The node has to stop; closing or deleting a log is no failure."""
    for name in ("t-0", "v-0"):
        disk = FullDisk()
        with_log(disk, 3)
        logs = recovered(disk)
        logs.create(TopicPartition("u", 0), LogConfig())
        new = logs.create(TopicPartition("v", 0), LogConfig())
        logs.remove(TopicPartition("u", 0))
        assert logs.failure == ""
        hosted = logs.find(T0) if name == "t-0" else new
        assert hosted is not None
        disk.full = True
        with pytest.raises(OSError, match="no space"):
            hosted.log.append_as_leader(batch(1), Epoch(7))  # which begins an epoch
        assert name in logs.failure
        assert "no space" in logs.failure
        disk.full = False
        assert not logs.close({}), "there must be no clean mark"


def test_closing_a_log_is_no_failure() -> None:
    """It makes everything durable."""
    disk = MemoryDisk()
    with_log(disk, 3)
    logs = recovered(disk)
    assert logs.close({T0: Offset(2)})
    assert logs.failure == ""


def test_cleaner_checkpoint_is_lowered_with_its_log() -> None:
    """KAFKA-3330: otherwise what is written there later would count as clean."""
    disk = MemoryDisk()
    with_log(disk, 5)
    OffsetCheckpoint(disk, CLEANER_OFFSETS).write({T0: Offset(9)})
    logs = recovered(disk)
    assert logs.cleaned == OffsetCheckpoint(disk, CLEANER_OFFSETS).read() == {T0: 5}
    hosted = logs.find(T0)
    assert hosted is not None
    hosted.log.truncate_to(Offset(2))
    logs.after_truncation()
    disk.crash()
    assert OffsetCheckpoint(disk, CLEANER_OFFSETS).read() == {T0: 2}


def test_cleaner_checkpoint_of_a_deleted_log_is_removed_before_the_name_is_used_again() -> None:
    disk = MemoryDisk()
    with_log(disk, 5)
    logs = recovered(disk)
    asyncio.run(logs.checkpoint_cleaned(T0, Offset(4)))
    logs.remove(T0)
    assert OffsetCheckpoint(disk, CLEANER_OFFSETS).read() == {T0: 4}
    logs.create(T0, LogConfig())
    disk.crash()
    assert OffsetCheckpoint(disk, CLEANER_OFFSETS).read() == {}


def test_directory_without_compacted_logs_has_no_cleaner_checkpoint() -> None:
    disk = MemoryDisk()
    with_log(disk, 5)
    logs = recovered(disk)
    logs.after_truncation()
    assert logs.close({})
    assert not disk.exists(CLEANER_OFFSETS)
