"""The process with the aiokafka clients of one topic: tasks of one event loop.

python -m harness.workloads.aiokafka CONFIG.json
"""

import asyncio
import sys
from collections.abc import Mapping

from harness.recording.history import OperationWriter
from harness.workloads import process
from harness.workloads.clients import access
from harness.workloads.clients.aiokafka import (
    RecordingConsumer,
    RecordingProducer,
    consumer_config,
    producer_config,
)
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig
from harness.workloads.coroutines import run_clients
from harness.workloads.environment import ClientEnvironment


class _Aiokafka:
    """Makes the aiokafka clients of a workload."""

    def __init__(self, config: ClientConfig) -> None:
        self._options = config.producer_options(access.of_this_process())
        self.world = ClientEnvironment.of_this_process()

    async def producer(self, sends: Sends) -> RecordingProducer:
        """Make a producer."""
        return await RecordingProducer.connect(producer_config(self._options), sends)

    async def consumer(self, reads: Reads, offsets: Mapping[int, int]) -> RecordingConsumer:
        """Make a consumer."""
        options = self._options
        settings = consumer_config(bootstrap=options.bootstrap, access=options.access)
        return await RecordingConsumer.connect(settings, reads, offsets)


async def run_workload(
    config: ClientConfig, writer: OperationWriter, stop: asyncio.Event, tallies: list[Tally]
) -> None:
    """Run the clients of one topic; see `run_clients`."""
    await run_clients(config, _Aiokafka(config), writer, stop, tallies)


if __name__ == "__main__":
    sys.exit(process.main(sys.argv, run_workload, ClientConfig.load))
