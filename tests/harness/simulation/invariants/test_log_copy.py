"""What a node's log must still have when its next incarnation opens it."""

import errno
from dataclasses import replace

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.partition_history import PartitionHistory
from harness.zoo.schedules.stage import MessageSchedule, Stage
from nodes.ids import Epoch, Offset
from nodes.log.batch import Record, encode_batch
from nodes.log.config import LogConfig
from nodes.log.errors import LogError
from nodes.log.log import Log
from nodes.log.segment import Segment
from nodes.log.segments import Segments
from nodes.server.replicas.manager import ReplicaManager
from nodes.storage.memory import MemoryDisk

EPOCH = Epoch(0)


def opened(disk: MemoryDisk, copy: Copy) -> Log:
    """The log of the next incarnation."""
    log = Log.open(disk, "t-0", LogConfig(), clean=False)
    copy.open(log)
    return log


def written(disk: MemoryDisk, copy: Copy) -> Log:
    """A log of one batch."""
    log = opened(disk, copy)
    log.assign_epoch(EPOCH, Offset(0))
    log.append_as_leader(encode_batch([Record(value=b"x")], timestamp_ms=1), EPOCH)
    copy.read()
    return log


def test_a_restart_loses_nothing() -> None:
    """Another log in its place is found."""
    copy = Copy(PartitionHistory("t-0"), 1)
    written(MemoryDisk(), copy)
    copy.close()
    with pytest.raises(InvariantBroken, match="a-restart-loses-nothing"):
        opened(MemoryDisk(), copy)


def test_a_truncation_that_a_full_disk_ends_has_removed_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old segments are gone, and there is no room for a new one (seed 94857)."""
    disk, copy = MemoryDisk(), Copy(PartitionHistory("t-0"), 1)
    log = written(disk, copy)

    def no_room(segments: Segments, base_offset: Offset) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Segments, "begin", no_room)
        with pytest.raises(OSError, match="No space left"):
            log.truncate_fully(Offset(24))
    copy.close()
    assert opened(disk, copy).end_offset == 0


def test_a_log_that_has_caught_up_since_it_was_set_aside_loses_nothing() -> None:
    """The mark of the old one may be there still."""
    copy = Copy(PartitionHistory("t-0"), 1)
    copy.mark_lost(frozenset(), everything=True)
    written(MemoryDisk(), copy)
    assert copy.last is not None
    assert copy.caught_up(copy.last)
    copy.close()
    log = Log.open(MemoryDisk(), "t-0", LogConfig(), clean=False)
    with pytest.raises(InvariantBroken, match="a-restart-loses-nothing"):
        copy.open(log, set_aside=True)


def test_nobody_knows_what_an_unreadable_log_has() -> None:
    """Neither what is before the damage: the node may remove it unseen."""
    disk, copy = MemoryDisk(), Copy(PartitionHistory("t-0"), 1)
    log = written(disk, copy)
    first = log.end_offset
    position = len(disk.read("t-0/00000000000000000000.log"))
    log.append_as_leader(encode_batch([Record(value=b"y")], timestamp_ms=1), EPOCH)
    log.flush()
    copy.read()
    copy.close()
    copy.mark_lost(frozenset(), everything=True)
    disk.corrupt("t-0/00000000000000000000.log", position + 19)
    copy.open(Log.open(disk, "t-0", LogConfig(), clean=True))
    assert copy.unreadable
    assert not copy.batches
    copy.close()
    again = Log.open(MemoryDisk(), "t-0", LogConfig(), clean=True)
    assert again.end_offset < first
    copy.open(again)


def test_what_cannot_be_read_any_more_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica with a damaged log truncates it, and then nobody can read it."""
    copy = Copy(PartitionHistory("t-0"), 1)
    log = written(MemoryDisk(), copy)
    assert copy.last is not None
    copy.history.commit(copy.last, 0, 1)
    copy.damaged = True

    def fail(segment: Segment, position: int) -> None:
        raise LogError

    log._segments.cuts += 1
    monkeypatch.setattr(copy, "_scan", fail)
    copy.read()
    assert copy.unreadable


@pytest.mark.parametrize("epoch", [2, 4])
def test_a_truncation_is_judged_in_the_epoch_of_the_replica(epoch: int) -> None:
    """Nobody has to follow the leaders before epoch 4. A restarted replica knows no epoch yet."""
    disk, copy = MemoryDisk(), Copy(PartitionHistory("t-0"), 1)
    log = written(disk, copy)
    assert copy.last is not None
    copy.history.commit(copy.last, 0, 1)
    copy.history.ignore_leaders_before(4)
    copy.epoch = epoch
    log.truncate_to(Offset(0))
    if epoch == 4:
        with pytest.raises(InvariantBroken, match="committed-stays"):
            copy.read()
    else:
        copy.read()
        assert copy.end == 0
        copy.close()
        opened(disk, copy)
        assert copy.epoch == -1


def test_the_copy_of_a_replica_knows_its_leader_epoch() -> None:
    """It follows the replica's."""

    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4])
        assert stage.copy(4).epoch == 0
        stage.cluster.kill(2)
        await stage.until("node 4 knows", lambda: stage.replica(4).state.leader_epoch == 1)
        assert stage.copy(4).epoch == 1

    Stage(MessageSchedule(play=play, settles_s=0), 1).run()


@pytest.mark.parametrize("late", ["", "image", "roles"])
def test_a_replica_that_is_added_again_before_its_node_knows_keeps_its_log(
    monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """Then its next start must find the log. While its node does not know the newest image, or has
    not applied it, it may still have to remove the log."""

    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4])
        copy, images = stage.copy(4), stage.invariants.images
        copy.retired = True
        if late == "image":
            images.newest = replace(images.newest, offset=Offset(images.newest.offset + 1000))
        if late == "roles":
            monkeypatch.setattr(ReplicaManager, "_applied", lambda manager, offset: None)
        stage.cluster.kill(2)
        await stage.until("node 4 knows", lambda: stage.replica(4).state.leader_epoch == 1)
        assert copy.retired is bool(late)

    Stage(MessageSchedule(play=play, settles_s=0), 1).run()
