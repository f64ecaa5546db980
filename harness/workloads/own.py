"""The clients of a topic or of a further workload with our own asyncio client: in a process, or on
any event loop.

    python -m harness.workloads.own CONFIG.json

`run_workload` is the same without the process. It gets clocks and randomness from outside and
starts no thread, so that a simulated loop can run it.
"""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace

from harness.recording.history import OperationWriter
from harness.workloads import process
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.librdkafka import BATCH_MESSAGES, REQUEST_TIMEOUT_MS
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.partition_queue import Limits
from harness.workloads.clients.own.producer import ProducerSettings
from harness.workloads.clients.own.recording import RecordingConsumer, RecordingProducer
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig
from harness.workloads.configs import AnyConfig, load
from harness.workloads.coroutines import run_clients
from harness.workloads.environment import ClientEnvironment


async def run_workload(
    config: AnyConfig,
    writer: OperationWriter,
    world: ClientEnvironment,
    stop: asyncio.Event,
    tallies: list[Tally],
) -> None:
    """Run the clients until `stop` is set; see `run_clients` and `run_further`."""
    if isinstance(config, ClientConfig):
        await run_clients(config, _Own(config, world), writer, stop, tallies)
    else:
        from harness.workloads.further.own.run import run_further

        await run_further(config, writer, world, stop, tallies)


class _Own:
    """Makes our own clients for a workload. They connect later, by themselves."""

    def __init__(self, config: ClientConfig, world: ClientEnvironment) -> None:
        self.world = world
        self._bootstrap = config.bootstrap
        self._read_committed = config.read_committed
        self._producer = ProducerSettings(
            acks=config.acks,
            idempotence=config.idempotence,
            limits=Limits(
                messages=BATCH_MESSAGES,
                linger_s=config.linger_ms / 1000,
                timeout_s=config.message_timeout_ms / 1000,
            ),
            insists=config.insists,
            zombie_batches=config.zombie_batches,
            replication_s=min(REQUEST_TIMEOUT_MS, config.message_timeout_ms) / 1000,
        )

    async def producer(self, sends: Sends) -> RecordingProducer:
        """Make a producer."""
        clock_ms = self.world.wall_clock_ms
        return RecordingProducer(self._cluster(sends), self._producer, sends, clock_ms)

    async def consumer(self, reads: Reads, offsets: Mapping[int, int]) -> RecordingConsumer:
        """Make a consumer."""
        settings = replace(self.world.consumer, read_committed=self._read_committed)
        return RecordingConsumer(self._cluster(reads), settings, reads, offsets)

    def _cluster(self, history: Sends | Reads) -> Cluster:
        return self.world.connect(self._bootstrap, history.topic, history.client)


async def _run(
    config: AnyConfig, writer: OperationWriter, stop: asyncio.Event, tallies: list[Tally]
) -> None:
    world = ClientEnvironment.of_this_process()
    await run_workload(config, writer, world, stop, tallies)


if __name__ == "__main__":
    sys.exit(process.main(sys.argv, _run, load))
