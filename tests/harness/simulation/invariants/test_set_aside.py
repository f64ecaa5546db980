"""A log that is set aside without a reason is found."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.partition_history import PartitionHistory
from harness.simulation.invariants.set_aside import DiskPast, check_set_aside
from harness.zoo.schedules.stage import TOPIC, MessageSchedule, Stage, disk
from nodes.log.checkpoints import RECOVERY_POINTS

SOUND, DAMAGED, UNPOWERED = DiskPast(False, False), DiskPast(True, False), DiskPast(False, True)


def copy(flushed: int, *, start: int = 0, retired: bool = False) -> Copy:
    """What is known of a log of node 1."""
    made = Copy(PartitionHistory("t-0"), 1)
    made.flushed, made._start, made.retired = flushed, start, retired
    return made


@pytest.mark.parametrize(
    ("past", "copies", "marked"),
    [
        (DAMAGED, [copy(7)], True),
        (DAMAGED, [copy(7)], False),
        (UNPOWERED, [copy(0)], False),
        (UNPOWERED, [copy(7, retired=True), copy(0)], False),
        (UNPOWERED, [copy(7, start=7)], False),
        (UNPOWERED, [], False),
    ],
)
def test_reason_permits_to_set_a_log_aside(
    past: DiskPast, copies: list[Copy], *, marked: bool
) -> None:
    """A fault damaged the disk, or the power failed before the first flush. A new log that begins
    at its leader's start is flushed up to there."""
    check_set_aside(1, "t-0", past, copies, marked=marked)


@pytest.mark.parametrize(
    ("past", "copies", "marked"),
    [
        (SOUND, [copy(0)], True),
        (SOUND, [copy(0)], False),
        (UNPOWERED, [copy(0)], True),
        (UNPOWERED, [copy(7)], False),
        (UNPOWERED, [copy(8, start=7)], False),
        (UNPOWERED, [copy(7, start=7)], True),
    ],
)
def test_log_set_aside_without_a_reason_breaks_undamaged_logs_stay(
    past: DiskPast, copies: list[Copy], *, marked: bool
) -> None:
    """Nothing happened to the disk, or nothing that explains it."""
    with pytest.raises(InvariantBroken, match=r"^undamaged-logs-stay: t-0: node 1 "):
        check_set_aside(1, "t-0", past, copies, marked=marked)


async def _back_with_its_records(stage: Stage) -> None:
    stage.cluster.start(3)
    await stage.until("node 3 runs", lambda: 3 in stage.invariants.node_checkers)
    await stage.until("it has a replica", lambda: TOPIC in stage.checker(3).replica_checkers)
    await stage.until("it has the records", lambda: stage.replica(3).log.end_offset == 3)


async def _nothing(stage: Stage) -> None:
    """The node goes on."""


async def _power_loss(stage: Stage) -> None:
    stage.lose_power(3)
    await _back_with_its_records(stage)


async def _damage(stage: Stage) -> None:
    stage.cluster.kill(3)
    stage.invariants.damaged(3)
    await _back_with_its_records(stage)


async def _new_disk(stage: Stage) -> None:
    stage.cluster.kill(3)
    stage.invariants.damaged(3)
    stage.wipe(3)
    await _back_with_its_records(stage)


def _set_aside_after(happens: Callable[[Stage], Awaitable[None]]) -> None:
    """Set the log of node 3 aside after something has happened to it."""

    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4], flush_messages="1")
        await stage.send(count=3)
        await stage.await_replication()
        await happens(stage)
        manager = stage.checker(3)._manager
        assert manager is not None
        manager.logs._set_aside_as_damaged(TOPIC)
        await asyncio.sleep(0.1)

    Stage(MessageSchedule(play=play, settles_s=0), 1).run()


@pytest.mark.parametrize("happens", [_nothing, _power_loss, _new_disk])
def test_node_that_sets_an_undamaged_log_aside_is_found(
    happens: Callable[[Stage], Awaitable[None]],
) -> None:
    """The new name of the directory is noticed. A new disk is sound, whatever the old one was."""
    with pytest.raises(InvariantBroken, match="undamaged-logs-stay"):
        _set_aside_after(happens)


def test_node_with_a_damaged_disk_may_set_a_log_aside() -> None:
    """The fault may have damaged any of its files."""
    _set_aside_after(_damage)


def _found_later(*, damaged: bool) -> None:
    """Damage below the recovery point of node 3 is found when it starts without a recovery point,
    as after a truncation."""

    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4], segment_bytes="1000")
        await stage.send(count=3)
        stage.host(3).terminate()
        await stage.until("node 3 stops", lambda: not stage.host(3).running)
        disk(stage.host(3)).content.corrupt(f"{TOPIC}/00000000000000000000.log", 70)
        if damaged:
            stage.invariants.damaged(3)
        await _back_with_its_records(stage)
        await stage.send()
        await stage.await_replication()
        await stage.until("node 3 is in sync", lambda: 3 in stage.partition.isr)
        copy = stage.copy(3)
        assert copy.lost_before is None
        earlier = stage.invariants.incarnations(3)
        stage.cluster.kill(3)
        disk(stage.host(3)).content.unlink(RECOVERY_POINTS)
        stage.cluster.start(3)
        await stage.until("it begins anew", lambda: copy.set_aside)
        assert copy.lost_before == earlier
        assert copy.damaged
        await stage.until("it caught up", lambda: not copy.set_aside)

    Stage(MessageSchedule(play=play, settles_s=0), 1).run()


def test_damage_may_be_found_at_a_later_start() -> None:
    """The log had everything before, as far as anybody could tell."""
    _found_later(damaged=True)


def test_what_no_fault_damaged_is_not_found_at_a_later_start() -> None:
    """The node loses what it had, and has no reason."""
    with pytest.raises(InvariantBroken, match=r"a-restart-loses-nothing|undamaged-logs-stay"):
        _found_later(damaged=False)
