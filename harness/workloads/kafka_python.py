"""The process with the kafka-python clients of one topic, each in a thread.

python -m harness.workloads.kafka_python CONFIG.json
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
    """Makes the kafka-python clients of a workload."""

    def __init__(self, config: ClientConfig) -> None:
        self._options = config.producer_options(access.of_this_process())

    def producer(self, sends: Sends) -> RecordingProducer:
        """Make a producer."""
        return RecordingProducer(producer_config(self._options), sends)

    def consumer(self, reads: Reads) -> RecordingConsumer:
        """Make a consumer."""
        options = self._options
        settings = consumer_config(bootstrap=options.bootstrap, access=options.access)
        return RecordingConsumer(settings, reads)


if __name__ == "__main__":
    sys.exit(threads.main(sys.argv, KafkaPython))
