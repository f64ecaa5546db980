"""Group commit: who waits for durability shares it, or learns that it failed."""

import asyncio
import dataclasses
import errno

import pytest

from nodes.ids import Epoch, Offset
from nodes.log.errors import LogError, LogOffline, LogTruncated
from nodes.log.log import Log, LogConfig
from nodes.storage.disk import File
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import SMALL, batch, open_log

E1 = Epoch(1)
BIG = LogConfig()


class GatedDisk(MemoryDisk):
    """Syncs off the loop wait for the gate; then they happen, or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.syncs: list[File | str] = []
        self.fail = False

    async def sync(self, target: File | str) -> None:
        self.syncs.append(target)
        await self.gate.wait()
        if self.fail:
            raise OSError(errno.EIO, "input/output error")
        await super().sync(target)


def opened(disk: MemoryDisk, count: int = 3, config: LogConfig = BIG) -> Log:
    """A log whose names and epochs are on disk, and `count` records that are not."""
    log = open_log(disk, config=config)
    log.append_as_leader(batch(), E1)
    log.flush()
    for _ in range(count):
        log.append_as_leader(batch(), E1)
    return log


async def results(*waiters: "asyncio.Task[None]") -> list[type | None]:
    """What came of each, within a bound."""
    done = await asyncio.wait_for(asyncio.gather(*waiters, return_exceptions=True), 10)
    return [None if result is None else type(result) for result in done]


def test_waiters_share_a_sync() -> None:
    """A hundred waiters that come while one sync runs are answered by the next."""

    async def scenario() -> None:
        disk = GatedDisk()
        log = opened(disk)
        first = asyncio.ensure_future(log.durable(log.end_offset))
        await asyncio.sleep(0)
        waiters = []
        for _ in range(100):
            log.append_as_leader(batch(), E1)
            waiters.append(asyncio.ensure_future(log.durable(log.end_offset)))
        await asyncio.sleep(0)
        assert not first.done()
        disk.gate.set()
        assert await results(first, *waiters) == [None] * 101
        assert len(disk.syncs) == 2
        assert log.flushed_offset == log.end_offset == 104
        await log.durable(Offset(50))
        assert len(disk.syncs) == 2

    asyncio.run(scenario())


def test_durable_records_survive_a_power_loss() -> None:
    """Names, epochs and the indexes of sealed segments are on disk with the records."""

    async def scenario() -> None:
        disk = MemoryDisk()
        log = open_log(disk)
        for number in range(30):
            log.append_as_leader(batch(number % 3 + 1), Epoch(number // 7))
        await log.durable(log.end_offset)
        epochs, end = log.epochs, log.end_offset
        disk.crash()
        log = open_log(disk, recovery_point=end)
        assert (log.end_offset, log.epochs, log.recovery.rebuilt_indexes) == (end, epochs, 0)

    asyncio.run(scenario())


def test_a_failed_sync_fails_every_waiter() -> None:
    """KAFKA-10778: one error answers all, and those who come later; nobody hangs."""

    async def scenario() -> None:
        disk = GatedDisk()
        disk.fail = True
        log = opened(disk)
        waiters = [asyncio.ensure_future(log.durable(log.end_offset)) for _ in range(5)]
        await asyncio.sleep(0)
        disk.gate.set()
        assert await results(*waiters) == [LogOffline] * 5
        with pytest.raises(LogOffline, match="input/output"):
            await log.durable(log.end_offset)
        assert log.flushed_offset == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (lambda log: log.truncate_to(Offset(2)), LogTruncated),
        (lambda log: log.truncate_fully(Offset(9)), LogTruncated),
        (lambda log: log.close(), LogOffline),
        (lambda log: log.delete(), LogOffline),
    ],
)
def test_truncation_and_closing_end_the_wait(event: object, outcome: type) -> None:
    """Truncated meanwhile, then grown again beyond what was waited for; closed; deleted."""
    assert callable(event)

    async def scenario() -> None:
        disk = GatedDisk()
        log = opened(disk)
        waiters = [asyncio.ensure_future(log.durable(log.end_offset)) for _ in range(2)]
        await asyncio.sleep(0)
        event(log)
        if not log.offline:
            for _ in range(5):
                log.append_as_leader(batch(), Epoch(2))
        disk.gate.set()
        got = await results(*waiters)
        assert set(got) <= {outcome, LogOffline}
        assert outcome in got

    asyncio.run(scenario())


def test_waiting_beyond_the_log_end_is_refused() -> None:
    """It would wait for records that nobody promised."""
    log = opened(MemoryDisk())
    with pytest.raises(LogError):
        asyncio.run(log.durable(Offset(5)))


def test_a_cancelled_waiter_does_not_affect_the_others() -> None:
    """The one whose turn it was gives up: the next does the work, names included."""

    async def scenario() -> None:
        disk = GatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(), E1)
        first = asyncio.ensure_future(log.durable(Offset(1)))
        second = asyncio.ensure_future(log.durable(Offset(1)))
        await asyncio.sleep(0)
        first.cancel()
        disk.gate.set()
        assert await results(first, second) == [asyncio.CancelledError, None]
        disk.crash()
        assert open_log(disk).end_offset == 1

    asyncio.run(scenario())


def test_the_log_may_roll_and_expire_during_a_sync() -> None:
    """New segments are not claimed, removed ones not missed; what was asked for is durable."""

    async def scenario() -> None:
        disk = GatedDisk()
        log = opened(disk, 20, SMALL)
        end = log.end_offset
        waiter = asyncio.ensure_future(log.durable(end))
        await asyncio.sleep(0)
        log.configure(dataclasses.replace(SMALL, retention_bytes=100))
        assert log.expire(0, Offset(end - 1)) > 1
        for _ in range(10):
            log.append_as_leader(batch(), Epoch(3))
        disk.gate.set()
        assert await results(waiter) == [None]
        assert log.flushed_offset == end
        start = log.start_offset
        disk.crash()
        log = open_log(disk, recovery_point=end)
        assert log.start_offset == start
        assert log.end_offset >= end

    asyncio.run(scenario())


def test_when_a_flush_is_due() -> None:
    """By number, by age on the clock that is handed in, and when a segment is sealed."""
    log = opened(MemoryDisk(), 3, LogConfig(flush_messages=4, flush_ms=100))
    assert not log.flush_due(1000)
    assert not log.flush_due(1099)
    assert log.flush_due(1100)
    log.flush()
    assert not log.flush_due(5000)
    log.append_as_leader(batch(3), E1)
    assert not log.flush_due(6000)
    log.append_as_leader(batch(1), E1)
    assert log.flush_due(6000)
    rolled = opened(MemoryDisk(), 20, SMALL)
    assert rolled.flush_due(0)
    rolled.flush()
    assert not rolled.flush_due(1e9)
