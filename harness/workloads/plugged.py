"""The process with the clients of a workload whose kind another package declares, on librdkafka.

    python -m harness.workloads.plugged CONFIG.json

Each function of the kind runs in a thread. Its clients are closed when it returns. A producer that
librdkafka declares broken is replaced under a new client number, and the kind does not notice.
"""

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from harness.plans.workload_kind import Clients, Record, WorkloadKind
from harness.workloads import threads
from harness.workloads.client_histories import FurtherHistories
from harness.workloads.clients import access
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.librdkafka import (
    RecordingConsumer,
    RecordingProducer,
    consumer_config,
    producer_config,
)
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.payload import PayloadCodec
from harness.workloads.clients.reads import Read
from harness.workloads.clients.sends import Sends
from harness.workloads.further_config import FurtherConfig
from harness.workloads.librdkafka import Librdkafka

LINGER_MS: Final = 2.0
MESSAGE_TIMEOUT_MS: Final = 10_000
"""A send without an answer is given up after this time."""


class Plugged(threads.Clients):
    """The threads of the process, and the clients that they make. See `Clients`."""

    def __init__(self, config: FurtherConfig) -> None:
        super().__init__(config)
        wanted = config.wanted
        assert isinstance(wanted, WorkloadKind)
        self._config, self._wanted = config, wanted
        self._access = access.of_this_process()
        self._histories = FurtherHistories(config, self.writer, wanted.value_bytes)
        self._codec = PayloadCodec(config.run_id, wanted.value_bytes)
        self._thread = threading.local()

    def runs(self) -> list[tuple[str, Callable[[], None]]]:
        """See `threads.Clients`."""
        given: Clients = self
        runs = self._wanted.runs(given)
        return [(f"{self._config.name}-{n}", partial(self._run, run)) for n, run in enumerate(runs)]

    def _run(self, run: Callable[[], None]) -> None:
        with ExitStack() as opened:
            self._thread.opened = opened
            run()

    @property
    def partitions(self) -> Mapping[str, int]:
        """The number of partitions of each topic that the workload uses."""
        return self._config.partitions

    def stopped(self) -> bool:
        """Whether the workload shall end."""
        return self.stop.is_set()

    def sleep(self, seconds: float) -> bool:
        """Wait so long, or until the workload shall end. Return whether it goes on."""
        return not self.stop.wait(seconds)

    def producer(self, topic: str) -> "_Producer":
        """Make a producer for a topic."""
        opened = self._opened()
        self._check(topic, self._wanted.topics, "writes()")
        made = _Producer(partial(self._made, self._options(topic), topic, self.tally()))
        opened.callback(made.close, self._config.drain_ms / 1000)
        return made

    def consumer(self, topic: str, partitions: Collection[int] | None = None) -> "_Consumer":
        """Make a consumer of these partitions of a topic; None: of all."""
        opened = self._opened()
        self._check(topic, self.partitions, "writes() or reads()")
        client = self._histories.next_client()
        settings = consumer_config(
            bootstrap=self._config.bootstrap, group=f"highwater-{client}", access=self._access
        )
        made = RecordingConsumer(settings, self._histories.reads(client, topic, self.tally()))
        opened.callback(made.close)
        chosen = range(self.partitions[topic]) if partitions is None else partitions
        made.assign(dict.fromkeys(chosen, 0))
        return _Consumer(made, self._codec)

    def _opened(self) -> ExitStack:
        """The clients of this thread."""
        found = getattr(self._thread, "opened", None)
        if found is None:
            raise RuntimeError("make clients inside of the functions that runs() returns")
        assert isinstance(found, ExitStack)
        return found

    def _check(self, topic: str, topics: Collection[str], method: str) -> None:
        if topic not in topics:
            raise ValueError(f"the workload's {method} did not name topic {topic}")

    def _options(self, topic: str) -> ProducerOptions:
        return ProducerOptions(
            bootstrap=self._config.bootstrap,
            acks=self._config.acks_of(topic),
            idempotence=topic in self._config.idempotent,
            linger_ms=LINGER_MS,
            message_timeout_ms=MESSAGE_TIMEOUT_MS,
            access=self._access,
        )

    def _made(
        self, options: ProducerOptions, topic: str, tally: Tally
    ) -> tuple[RecordingProducer, Sends]:
        sends = self._histories.sends(self._histories.next_client(), topic, tally)
        return RecordingProducer(producer_config(options), sends), sends


class _Producer:
    """See `harness.plans.workload_kind.Producer`."""

    def __init__(self, make: Callable[[], tuple[RecordingProducer, Sends]]) -> None:
        self._make = make
        self._producer, self._sends = make()

    @property
    def pending(self) -> int:
        return self._sends.pending

    def send(self, partition: int, key: bytes | None = None) -> int:
        if self._producer.fatal is not None or self._sends.used_up:
            self._producer.close(0.0)
            self._producer, self._sends = self._make()
        value = self._producer.start(partition, key=key)
        assert value is not None, "a new producer has values left"
        return value

    def poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)

    def close(self, drain_s: float) -> None:
        """Wait up to `drain_s` for outcomes, then end the client."""
        self._producer.close(drain_s if self._producer.fatal is None else 0.0)


class _Consumer:
    """See `harness.plans.workload_kind.Consumer`."""

    def __init__(self, consumer: RecordingConsumer, codec: PayloadCodec) -> None:
        self._consumer = consumer
        self._codec = codec

    def poll(self, timeout_s: float) -> Sequence[Record]:
        return [self._record(each) for each in self._consumer.read(timeout_s)]

    def _record(self, read: Read) -> Record:
        value, _ = self._codec.decode(read.payload)
        return Record(read.partition, read.offset, read.key, value)


if __name__ == "__main__":
    sys.exit(threads.main(sys.argv, Librdkafka, Plugged))
