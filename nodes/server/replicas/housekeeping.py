"""The periodic jobs of a broker for its logs: retention, flushes, checkpoints, removal of files.

A job handles a few logs in each turn of the event loop. Only a checkpoint is taken in one turn,
because its offsets must be of one moment; it is then synced off the loop. The intervals are Kafka's
and mean the same: a time bound (retention.ms, flush.ms) is exact to within the job's interval.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from nodes.config import NodeConfig
from nodes.log.errors import LogError
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica

log = logging.getLogger("nodes.housekeeping")

NEVER_MS = 2**63 - 1
LOGS_PER_TURN = 16
FILES_PER_TURN = 64
SWEEP_INTERVAL_MS = 1000
SWEEP_TURNS = 100

Job = Callable[[], Coroutine[Any, Any, None]]


class Housekeeping:
    """One per broker; `jobs` run until the broker stops."""

    def __init__(
        self,
        config: NodeConfig,
        replicas: ReplicaManager,
        now_ms: Callable[[], float],
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._now_ms = now_ms
        self._wall_clock_ms = wall_clock_ms

    def jobs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """The jobs that the configuration asks for."""
        config, logs = self._config, self._replicas.logs
        for interval_ms, job in (
            (config.housekeeping.retention_ms, self._for_each_replica(self._expire)),
            (config.housekeeping.flush_ms, self._flush_due),
            (
                config.housekeeping.high_watermarks_ms,
                self._replicas.checkpoint_high_watermarks,
            ),
            (config.housekeeping.recovery_points_ms, logs.checkpoint_recovery_points),
            (config.housekeeping.log_starts_ms, logs.checkpoint_starts),
            (SWEEP_INTERVAL_MS, self._sweep),
        ):
            if interval_ms < NEVER_MS:
                yield _every(interval_ms, job)

    def _for_each_replica(
        self, visit: Callable[[Replica], None]
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        async def visit_all() -> None:
            for number, replica in enumerate(self._replicas.all()):
                if number % LOGS_PER_TURN == 0:
                    await asyncio.sleep(0)
                if self._replicas.find(replica.partition) is replica:
                    visit(replica)

        return visit_all

    def _expire(self, replica: Replica) -> None:
        """Delete expired segments and producers, and roll segments that are old enough."""
        try:
            removed = replica.expire(self._wall_clock_ms())
        except (LogError, OSError) as error:  # the log is offline, and the node stops soon
            log.error("%s: retention: %s", replica.partition, error)
            return
        if removed:
            start = replica.log.start_offset
            log.info("%s: %d segments expired, starts at %d", replica.partition, removed, start)

    async def _flush_due(self) -> None:
        for number, replica in enumerate(self._replicas.all()):
            if number % LOGS_PER_TURN == 0:
                await asyncio.sleep(0)
            try:
                if not replica.log.offline and replica.log.flush_due(self._now_ms()):
                    await replica.log.flush_async()
            except (LogError, OSError) as error:
                log.error("%s: flush: %s", replica.partition, error)

    async def _sweep(self) -> None:
        for _ in range(SWEEP_TURNS):
            if not self._replicas.logs.sweep(FILES_PER_TURN):
                break
            await asyncio.sleep(0)


async def _every(interval_ms: int, job: Job) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        await job()
