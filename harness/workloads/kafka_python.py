"""The clients of one topic on kafka-python, in a process.

    python -m harness.workloads.kafka_python CONFIG.json

does what `harness.workloads.librdkafka` does with librdkafka.
"""

import sys

from harness.workloads import threads
from harness.workloads.clients import access
from harness.workloads.clients.kafka_python import (
    RecordingConsumer,
    RecordingProducer,
    consumer_config,
    producer_config,
)
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig


class KafkaPython:
    """kafka-python as a library of the workload."""

    def __init__(self, config: ClientConfig) -> None:
        self._options = config.producer_options(access.of_this_process())

    def producer(self, sends: Sends) -> RecordingProducer:
        """See `Library`."""
        return RecordingProducer(producer_config(self._options), sends)

    def consumer(self, reads: Reads) -> RecordingConsumer:
        """See `Library`."""
        options = self._options
        settings = consumer_config(bootstrap=options.bootstrap, access=options.access)
        return RecordingConsumer(settings, reads)


if __name__ == "__main__":
    sys.exit(threads.main(sys.argv, KafkaPython))
