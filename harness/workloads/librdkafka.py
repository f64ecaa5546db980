"""The process with the librdkafka clients of a topic or of a further workload, each in a thread.

python -m harness.workloads.librdkafka CONFIG.json
"""

import sys
from typing import TYPE_CHECKING

from harness.workloads import threads
from harness.workloads.clients import access
from harness.workloads.clients.librdkafka import (
    RecordingConsumer,
    RecordingProducer,
    consumer_config,
    producer_config,
)
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig

if TYPE_CHECKING:  # the clients of topics do without it
    from harness.workloads.further_config import FurtherConfig


class Librdkafka:
    """Makes the librdkafka clients of a workload."""

    def __init__(self, config: ClientConfig) -> None:
        self._options = config.producer_options(access.of_this_process())

    def producer(self, sends: Sends) -> RecordingProducer:
        """Make a producer."""
        return RecordingProducer(producer_config(self._options), sends)

    def consumer(self, reads: Reads) -> RecordingConsumer:
        """Make a consumer."""
        options, group = self._options, f"highwater-{reads.client}"
        settings = consumer_config(bootstrap=options.bootstrap, group=group, access=options.access)
        return RecordingConsumer(settings, reads)


def _further(config: "FurtherConfig") -> threads.Clients:
    from harness.workloads.further.librdkafka.run import further

    return further(config)


if __name__ == "__main__":
    sys.exit(threads.main(sys.argv, Librdkafka, _further))
