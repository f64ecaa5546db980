"""The clients of one topic on aiokafka, in a process.

    python -m harness.workloads.aiokafka CONFIG.json

does what `harness.workloads.librdkafka` does with librdkafka.
"""

import asyncio
import sys

from harness.clients import access
from harness.clients.aiokafka import (
    RecordingConsumer,
    RecordingProducer,
    consumer_config,
    producer_config,
)
from harness.clients.reads import Reads
from harness.clients.sends import Sends
from harness.clients.tally import Tally
from harness.history import Operations
from harness.payload import PayloadCodec
from harness.workloads import process
from harness.workloads.config import ClientConfig
from harness.workloads.coroutines import run_clients


class _Aiokafka:
    """aiokafka as a library of the workload."""

    def __init__(self, config: ClientConfig, writer: Operations) -> None:
        self._config = config
        self._writer = writer
        self._access = access.of_this_process()
        self._codec = PayloadCodec(config.run_id, config.value_bytes)

    async def producer(self, client: int, tally: Tally) -> RecordingProducer:
        """See `Library`."""
        config = self._config
        settings = producer_config(config.producer_options(self._access))
        sends = Sends(
            client=client,
            topic=config.topic,
            acks=config.acks,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
        )
        return await RecordingProducer.connect(settings, sends)

    async def consumer(self, client: int, tally: Tally) -> RecordingConsumer:
        """See `Library`."""
        config = self._config
        reads = Reads(
            client=client,
            topic=config.topic,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
        )
        settings = consumer_config(bootstrap=config.bootstrap, access=self._access)
        beginning = dict.fromkeys(range(config.partitions), 0)
        return await RecordingConsumer.connect(settings, reads, beginning)


async def run_workload(
    config: ClientConfig, writer: Operations, stop: asyncio.Event, tallies: list[Tally]
) -> None:
    """See `run_clients`."""
    await run_clients(config, _Aiokafka(config, writer), stop, tallies)


if __name__ == "__main__":
    sys.exit(process.main(sys.argv, run_workload))
