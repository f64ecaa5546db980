"""The log cleaner of a broker: cleans the dirtiest compacted log, again and again.

It starts when the broker gets its first replica of a compacted topic. When no log is due it waits
for log.cleaner.backoff.ms. It works a few milliseconds at a time, and no faster than
log.cleaner.io.max.bytes.per.second. Leaders and followers clean their own logs.

A log that cannot be cleaned because a batch is damaged is left as it is until the next start, as in
Kafka; the others are still cleaned. Retention of compacted topics is left to `housekeeping`.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import closing

from nodes.config import CleanerSettings
from nodes.ids import Offset
from nodes.log.cleaning.cleaner import Cleaning, CleaningEnded, Step
from nodes.log.cleaning.offset_map import OffsetMap
from nodes.log.cleaning.selection import Cleanable, cleanable, dirtiest, first_dirty
from nodes.log.config import CompactionConfig
from nodes.log.errors import LogError
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica

log = logging.getLogger("nodes.cleaner")

LOGS_PER_TURN = 16
MIN_BACKOFF_MS = 1
SHORTEST_WAIT_MS = 10.0
"""Shorter waits for the throttle are saved up: a timer is not that exact."""


class LogCleaner:
    """See the module."""

    def __init__(
        self,
        settings: CleanerSettings,
        replicas: ReplicaManager,
        now_ms: Callable[[], float],
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._replicas = replicas
        self._now_ms = now_ms
        self._wall_clock_ms = wall_clock_ms
        self._task: asyncio.Task[None] | None = None
        self._steps: Generator[Step, None, None] | None = None
        self._syncing: asyncio.Future[list[None]]
        """What one of these asked for last; the first one does."""
        self._uncleanable: set[tuple[object, int]] = set()
        """Topic ids and partitions."""
        self._ready_ms = 0.0
        """When the throttle allows the next step."""

    def start(self) -> None:
        """Begin to clean, unless that has begun or log.cleaner.enable is false."""
        if self._task is None and self._settings.enabled:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop for good; a cleaning that is under way is given up."""
        if self._task is not None:
            self._task.cancel()
        if self._steps is not None:
            self._syncing.cancel()
            self._steps.close()

    async def _run(self) -> None:
        backoff_s = max(self._settings.backoff_ms, MIN_BACKOFF_MS) / 1000
        while True:
            try:
                while await self._clean_dirtiest():
                    pass
            except Exception:  # the cleaner goes on with other logs, or later
                log.exception("the log cleaner failed")
            await asyncio.sleep(backoff_s)

    async def _clean_dirtiest(self) -> bool:
        """Clean a log that is due; false if there is none, or its cleaning was given up."""
        due: list[tuple[Replica, Cleanable, CompactionConfig]] = []
        for number, replica in enumerate(self._replicas.all()):
            if number % LOGS_PER_TURN == 0:
                await asyncio.sleep(0)
            config = replica.log.config.compaction
            if config is not None and self._may_clean(replica):
                due.append((replica, self._cleanable(replica, config), config))
        chosen = dirtiest((found, config) for _, found, config in due)
        return chosen is not None and await self._clean(due[chosen][0])

    def _may_clean(self, replica: Replica) -> bool:
        key = (replica.topic_id, replica.partition.partition)
        return not (replica.retired or replica.log.offline or key in self._uncleanable)

    def _cleanable(self, replica: Replica, config: CompactionConfig) -> Cleanable:
        start, end = replica.log.start_offset, replica.log.end_offset
        checkpoint = self._replicas.logs.cleaned.get(replica.partition)
        return cleanable(
            replica.log.segments.all,
            first_dirty(checkpoint, start, end),
            stable_offset=replica.decided_offset,
            config=config,
            now_ms=self._wall_clock_ms(),
        )

    async def _clean(self, replica: Replica) -> bool:
        partition = replica.partition
        try:
            await replica.log.flush_async()
            config = replica.log.config.compaction
            if config is None or not self._may_clean(replica):
                return False
            found = self._cleanable(replica, config)
            if not found.is_due(config) or found.end > replica.log.flushed_offset:
                return False
            end = await self._clean_range(replica, found)
            if self._replicas.find(partition) is replica:
                await self._replicas.logs.checkpoint_cleaned(partition, end)
        except CleaningEnded as ended:
            log.info("%s: not cleaned: %s", partition, ended)
            return False
        except LogError as error:
            log.error("%s: cannot be cleaned, and is left as it is: %s", partition, error)
            self._uncleanable.add((replica.topic_id, partition.partition))
        except OSError as error:
            replica.log.health.fail(error)
        return True

    async def _clean_range(self, replica: Replica, found: Cleanable) -> Offset:
        settings, disk = self._settings, replica.log.segments.disk
        cleaning = Cleaning(
            replica.log,
            found.end,
            offsets=OffsetMap(
                found.first_dirty,
                found.end,
                settings.dedupe_buffer_bytes,
                settings.buffer_load_factor,
            ),
            now_ms=self._wall_clock_ms(),
            window_bytes=settings.io_buffer_bytes,
        )
        self._steps = cleaning.steps()
        with closing(self._steps) as steps:
            try:
                for step in steps:
                    if step.to_sync:
                        self._syncing = asyncio.gather(*map(disk.sync, step.to_sync))
                        self._syncing.add_done_callback(_was_seen)
                    if step.synced:
                        await self._syncing
                    await self._pace(step.io_bytes)
            finally:
                self._syncing.cancel()
        stats = cleaning.stats
        log.info(
            "%s: clean below offset %d: %d bytes are %d now",
            replica.partition,
            stats.end,
            stats.bytes_before,
            stats.bytes_after,
        )
        return stats.end

    async def _pace(self, io_bytes: int) -> None:
        """Let other tasks run, and wait if the cleaner was too fast."""
        now_ms = self._now_ms()
        needed_ms = 1000 * io_bytes / self._settings.max_bytes_per_second
        self._ready_ms = max(self._ready_ms, now_ms) + needed_ms
        wait_ms = self._ready_ms - now_ms
        await asyncio.sleep(wait_ms / 1000 if wait_ms >= SHORTEST_WAIT_MS else 0)


def _was_seen(done: asyncio.Future[list[None]]) -> None:
    """An error of files that a given-up cleaning has discarded concerns nobody."""
    if not done.cancelled():
        done.exception()
