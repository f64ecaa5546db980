"""The clients of one topic on our own asyncio client: in a process, or on any other event loop.

    python -m harness.workloads.own CONFIG.json

does what `harness.workloads.librdkafka` does with librdkafka. `run_workload` is the same without
the process; it takes clocks and chance from outside and starts no thread, so that a simulated loop
can run it.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.recording.history import OperationWriter
from harness.workloads import process
from harness.workloads.clients import access
from harness.workloads.clients.client_history import Ledger
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.librdkafka import BATCH_MESSAGES, REQUEST_TIMEOUT_MS
from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.clients.own.consumer import ConsumerSettings
from harness.workloads.clients.own.partition_queue import Limits
from harness.workloads.clients.own.producer import ProducerSettings
from harness.workloads.clients.own.recording import (
    WORKLOAD_CONSUMER,
    RecordingConsumer,
    RecordingProducer,
    connect,
)
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig
from harness.workloads.coroutines import run_clients
from nodes.wire.security import PLAINTEXT_CLIENT, ClientSecurity


@dataclass(slots=True, kw_only=True)
class World:
    """What clients take from outside: chance, the time of day, and how patient and how eager they
    are, which decides how many requests there are."""

    rng: random.Random
    wall_clock_ms: Callable[[], int]
    timing: Timing = field(default_factory=Timing)
    consumer: ConsumerSettings = WORKLOAD_CONSUMER
    security: ClientSecurity = PLAINTEXT_CLIENT


async def run_workload(
    config: ClientConfig,
    writer: OperationWriter,
    world: World,
    stop: asyncio.Event,
    tallies: list[Tally],
) -> None:
    """See `run_clients`."""
    await run_clients(config, _Own(config, world), writer, stop, tallies)


class _Own:
    """Our client as a library of the workload: it connects later, by itself."""

    def __init__(self, config: ClientConfig, world: World) -> None:
        self._bootstrap = config.bootstrap
        self._world = world
        self._producer = ProducerSettings(
            acks=config.acks,
            idempotence=config.idempotence,
            limits=Limits(
                messages=BATCH_MESSAGES,
                linger_s=config.linger_ms / 1000,
                timeout_s=config.message_timeout_ms / 1000,
            ),
            insists=config.insists,
            replication_s=min(REQUEST_TIMEOUT_MS, config.message_timeout_ms) / 1000,
        )

    async def producer(self, sends: Sends) -> RecordingProducer:
        """See `Library`."""
        clock_ms = self._world.wall_clock_ms
        return RecordingProducer(self._cluster(sends), self._producer, sends, clock_ms)

    async def consumer(self, reads: Reads, offsets: Mapping[int, int]) -> RecordingConsumer:
        """See `Library`."""
        return RecordingConsumer(self._cluster(reads), self._world.consumer, reads, offsets)

    def _cluster(self, ledger: Ledger) -> Cluster:
        world = self._world
        return connect(
            self._bootstrap,
            ledger.topic,
            client=ledger.client,
            rng=world.rng,
            timing=world.timing,
            security=world.security,
        )


async def _run(
    config: ClientConfig, writer: OperationWriter, stop: asyncio.Event, tallies: list[Tally]
) -> None:
    world = World(
        rng=random.Random(),
        wall_clock_ms=lambda: time.time_ns() // 1_000_000,
        security=access.of_this_process().channel(),
    )
    await run_workload(config, writer, world, stop, tallies)


if __name__ == "__main__":
    sys.exit(process.main(sys.argv, _run))
