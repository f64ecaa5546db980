"""The reader of a compacted topic with our own client, on any event loop: see `clients.passes`.

Its partitions are read independently of each other.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from harness.workloads.clients.outcomes import ClientBroken
from harness.workloads.clients.own.consumer import Consumer, ConsumerSettings
from harness.workloads.clients.own.offsets import BoundsUnknown, bounds
from harness.workloads.clients.own.records import Fetched
from harness.workloads.clients.own.waiting import Signal
from harness.workloads.clients.passes import PASS_S, RETRY_S, Passes
from harness.workloads.clients.reads import Read
from harness.workloads.config import ClientConfig
from harness.workloads.environment import ClientEnvironment

SETTINGS: Final = ConsumerSettings(max_wait_s=0.1)
CHECK_S: Final = 0.1
"""How late the reader notices that only offsets without records were left."""


async def read_passes(
    config: ClientConfig, passes: Passes, world: ClientEnvironment, stop: asyncio.Event
) -> None:
    """Read all partitions of the topic in passes until `stop` is set."""
    passes.open()
    reader = _PassReader(config, passes, world, stop)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(reader.forward_stop())
            for partition in range(config.partitions):
                group.create_task(reader.run(partition))
        passes.close()
    finally:
        await reader.close()


class _PassReader:
    """Implements `harness.workloads.clients.own.consumer.Reader`."""

    def __init__(
        self, config: ClientConfig, passes: Passes, world: ClientEnvironment, stop: asyncio.Event
    ) -> None:
        self._pause_s = config.passes_every_s
        self._passes = passes
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._cluster = world.connect(config.bootstrap, config.topic, passes.client)
        self._consumer = Consumer(self._cluster, SETTINGS, {}, self, now_ns=passes.now_ns)
        self._progress = {partition: Signal() for partition in range(config.partitions)}

    async def forward_stop(self) -> None:
        """Wake the tasks of all partitions at the stop."""
        await self._stop.wait()
        for each in self._progress.values():
            each.set()

    async def run(self, partition: int) -> None:
        """Read a partition in passes until the stop. Raises ClientBroken."""
        while not self._stop.is_set():
            if self._consumer.fatal is not None:
                raise ClientBroken(f"reader {self._passes.client}: {self._consumer.fatal}")
            began_ns = self._passes.now_ns()
            try:
                low, end = await bounds(self._cluster, partition)
            except BoundsUnknown as error:
                self._passes.note(str(error))
                await self._pause(partition, RETRY_S)
                continue
            await self._read(partition, began_ns, low, end)
            await self._pause(partition, self._pause_s)

    async def close(self) -> None:
        """End the client."""
        await self._consumer.close()

    async def _read(self, partition: int, began_ns: int, low: int, end: int) -> None:
        reading = self._passes.begin(partition, began_ns, low, end)
        deadline_s = self._loop.time() + PASS_S
        self._consumer.add(partition, low)
        while not (reading.over or self._stop.is_set()) and self._loop.time() < deadline_s:
            await self._progress[partition].wait(CHECK_S)
            reading.next = self._consumer.position(partition)
        self._consumer.drop(partition)
        self._passes.ended(partition)

    async def _pause(self, partition: int, seconds: float) -> None:
        """Wait so long, or until the stop."""
        end_s = self._loop.time() + seconds
        while not self._stop.is_set() and (left_s := end_s - self._loop.time()) > 0:
            await self._progress[partition].wait(left_s)

    # -- as a reader

    def polled(self, invoke_ns: int, node: int, read: Sequence[tuple[int, Fetched]]) -> None:
        """Record the records of a fetch."""
        records = (Read(partition, *each) for partition, got in read for each in got.records)
        self._passes.polled(records, invoke_ns, node=node)
        for partition, _ in read:
            self._progress[partition].set()

    def truncated(self, partition: int, reason: str) -> bool:
        """End the pass: what was read of it may be of another log."""
        self._passes.under_way[partition].why = reason
        self._progress[partition].set()
        return False

    def moved(self, invoke_ns: int, partition: int, offset: int, reason: str) -> None:
        """Nothing goes back."""

    def failed(self, partition: int, error: str) -> None:
        """Show the error among the counters."""
        self._passes.note(error)
