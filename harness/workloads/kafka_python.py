"""The clients of one topic on kafka-python, in a process.

    python -m harness.workloads.kafka_python CONFIG.json

does what `harness.workloads.librdkafka` does with librdkafka.
"""

import sys

from harness.clients import access
from harness.clients.kafka_python import (
    RecordingConsumer,
    RecordingProducer,
    consumer_config,
    producer_config,
)
from harness.clients.tally import Tally
from harness.history import HistoryWriter
from harness.payload import PayloadCodec
from harness.workloads import threads
from harness.workloads.config import ClientConfig


class KafkaPython:
    """kafka-python as a library of the workload."""

    def __init__(self, config: ClientConfig, writer: HistoryWriter) -> None:
        self._config = config
        self._writer = writer
        self._access = access.of_this_process()
        self._codec = PayloadCodec(config.run_id, config.value_bytes)

    def producer(self, client: int, tally: Tally) -> RecordingProducer:
        """See `Library`."""
        config = self._config
        return RecordingProducer(
            producer_config(config.producer_options(self._access)),
            client=client,
            topic=config.topic,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
        )

    def consumer(self, client: int, tally: Tally) -> RecordingConsumer:
        """See `Library`."""
        config = self._config
        return RecordingConsumer(
            consumer_config(bootstrap=config.bootstrap, access=self._access),
            client=client,
            topic=config.topic,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
        )


if __name__ == "__main__":
    sys.exit(threads.main(sys.argv, KafkaPython))
