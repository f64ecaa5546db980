"""What a node's log must still have when its next incarnation opens it."""

import errno

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.partition_history import PartitionHistory
from harness.zoo.schedules.stage import MessageSchedule, Stage
from nodes.ids import Epoch, Offset
from nodes.log.batch import Record, encode_batch
from nodes.log.config import LogConfig
from nodes.log.log import Log
from nodes.log.segments import Segments
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
