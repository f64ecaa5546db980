"""An offset checkpoint is durable, never goes back, and waits for the disk off the loop."""

import asyncio
from collections.abc import Callable

import pytest

from nodes.ids import Offset, TopicPartition
from nodes.log.checkpoints import LOG_START_OFFSETS, CheckpointError, OffsetCheckpoint
from nodes.server.replicas.offset_checkpoints import TrackedCheckpoint
from nodes.storage.memory import MemoryDisk
from tests.tools.storage_crashes import CrashingDisk

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def opened() -> tuple[MemoryDisk, TrackedCheckpoint]:
    disk = MemoryDisk()
    return disk, TrackedCheckpoint(disk, LOG_START_OFFSETS)


def stored(disk: MemoryDisk) -> dict[TopicPartition, Offset]:
    """What the next start finds once the power was lost."""
    disk.crash()
    return OffsetCheckpoint(disk, LOG_START_OFFSETS).read()


def test_saved_offsets_are_durable() -> None:
    """With a blocking save and with one off the loop."""
    disk, kept = opened()
    asyncio.run(kept.save_off_loop(lambda: {A: Offset(3)}))
    assert stored(disk) == {A: 3}
    kept.save({A: Offset(2), B: Offset(5)})
    assert stored(disk) == {A: 2, B: 5}


def test_blocking_save_overtakes_a_save_under_way() -> None:
    """At whatever step the slower one is, the newer offsets stay."""

    async def race(steps: int) -> None:
        disk, kept = opened()
        kept.save({A: Offset(1)})
        slower = asyncio.ensure_future(kept.save_off_loop(lambda: {A: Offset(9)}))
        for _ in range(steps):
            await asyncio.sleep(0)
        if not slower.done():
            assert kept.possible_offset(A) in (1, 9)
        kept.save({A: Offset(4)})
        await slower
        assert kept.possible_offset(A) == 4
        assert stored(disk) == {A: 4}

    for steps in range(1, 8):  # before, it has not begun, and is the newer one
        asyncio.run(race(steps))


def test_cancelled_save_leaves_both_states_possible() -> None:
    """The next save writes again, although its offsets are those of the cancelled one."""

    async def run() -> None:
        disk, kept = opened()
        kept.save({A: Offset(7)})
        slower = asyncio.ensure_future(kept.save_off_loop(lambda: {A: Offset(5)}))
        await asyncio.sleep(0)
        slower.cancel()
        await asyncio.gather(slower, return_exceptions=True)
        assert kept.possible_offset(A) == 7
        await kept.save_off_loop(lambda: {A: Offset(5)})
        assert stored(disk) == {A: 5}

    asyncio.run(run())


def test_callers_share_writes_and_unchanged_offsets_cost_none() -> None:
    """Ten callers at once: one write for the first, one for all others."""
    disk = CrashingDisk(MemoryDisk())
    kept = TrackedCheckpoint(disk, LOG_START_OFFSETS)
    now = {A: Offset(0)}

    async def save(number: int) -> None:
        now[A] = Offset(number)
        await kept.save_off_loop(now.copy)
        assert (kept.possible_offset(A) or 0) >= number

    async def run() -> None:
        await asyncio.gather(*map(save, range(10)))

    asyncio.run(run())
    assert sum(what.startswith("rename") for what in disk.log) <= 2


@pytest.mark.parametrize("damage", [lambda text: b"", lambda text: text[:-2], lambda text: b"\xff"])
def test_damaged_checkpoint_is_an_error_unless_it_is_optional(
    damage: Callable[[bytes], bytes],
) -> None:
    """An optional one counts as missing."""
    disk, kept = opened()
    kept.save({A: Offset(3)})
    disk.write_atomic(LOG_START_OFFSETS, damage(disk.read(LOG_START_OFFSETS)))
    assert kept.read(optional=True) == {}
    with pytest.raises(CheckpointError, match="deleted"):
        kept.read(optional=False)
