"""The clients of one topic as coroutines, for libraries on asyncio.

They start no thread and use only the loop's time, so that a simulated loop can run them. Libraries
with blocking calls have the same clients in `harness.workloads.threads`.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from harness.recording.history import OperationWriter
from harness.workloads.client_histories import ClientHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.outcomes import ClientBroken, NotConnected
from harness.workloads.clients.own.waiting import Signal
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig
from harness.workloads.environment import ClientEnvironment
from harness.workloads.own_passes import read_passes
from harness.workloads.pacing import CONNECT_RETRY_S, SENDS_PER_POLL, RoundRobin

PROGRESS_S: Final = 0.1
"""How late a producer that waits for outcomes notices a stop."""
CHECK_S: Final = 1.0
"""How late a waiting client notices that it is broken."""


class WorkloadProducer(Protocol):
    """A producer that records the outcomes of its sends."""

    progress: Signal

    @property
    def fatal(self) -> str | None:
        """Why this instance cannot send any more."""
        ...

    def send(self, partition: int) -> None:
        """Start one send."""
        ...

    async def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for outcomes, then end the client."""
        ...


class WorkloadConsumer(Protocol):
    """A consumer that reads by itself, and records what it reads."""

    @property
    def fatal(self) -> str | None:
        """Why this instance cannot read any more."""
        ...

    async def close(self) -> None:
        """End the client."""
        ...


class Library(Protocol):
    """Makes the clients of one topic. Raises NotConnected."""

    @property
    def world(self) -> ClientEnvironment:
        """What our own client gets from outside, which reads the passes of compacted topics."""
        ...

    async def producer(self, sends: Sends) -> WorkloadProducer:
        """Make a producer that records its sends in `sends`."""
        ...

    async def consumer(self, reads: Reads, offsets: Mapping[int, int]) -> WorkloadConsumer:
        """Make a consumer that reads from {partition: next offset} on, and records in `reads`."""
        ...


async def run_clients(
    config: ClientConfig,
    library: Library,
    writer: OperationWriter,
    stop: asyncio.Event,
    tallies: list[Tally],
) -> None:
    """Run the topic's producers and consumers until `stop` is set, then close them.

    A tally of every client is appended to `tallies`. Raises an ExceptionGroup with ClientBroken or
    another error of a client; then the other clients are ended.
    """
    histories = ClientHistories(config, writer)
    clients = _Clients(config, library, stop)
    async with asyncio.TaskGroup() as group:
        group.create_task(clients.forward_stop())
        for index in range(config.producers + config.consumers):
            tally = Tally()
            tallies.append(tally)
            if index < config.producers:
                group.create_task(clients.produce(index, histories, tally))
            else:
                group.create_task(clients.consume(histories.reads(tally)))
        if config.passes_every_s:
            tallies.append(Tally())
            passes = histories.passes(tallies[-1])
            group.create_task(read_passes(config, passes, library.world, stop))


class _Clients:
    """The clients of one workload, and what they share."""

    def __init__(self, config: ClientConfig, library: Library, stop: asyncio.Event) -> None:
        self._config = config
        self._library = library
        self._stop = stop
        self._stop_signals: list[Signal] = []
        """One for each client, which waits for it while it has nothing to do."""
        self._loop = asyncio.get_running_loop()

    async def forward_stop(self) -> None:
        """Wake all clients at the stop."""
        await self._stop.wait()
        for signal in self._stop_signals:
            signal.set()

    def _stop_signal(self) -> Signal:
        signal = Signal()
        self._stop_signals.append(signal)
        return signal

    async def produce(self, index: int, histories: ClientHistories, tally: Tally) -> None:
        """Run a producer; replace it under a new client number when it has made its sends, or
        cannot go on."""
        stopped = self._stop_signal()
        while not self._stop.is_set():
            sends = histories.sends(tally)
            try:
                producer = await self._library.producer(sends)
            except NotConnected as error:
                sends.note(str(error))
                await stopped.wait(CONNECT_RETRY_S)
                continue
            try:
                await self._drive(producer, sends, stopped, first_partition=index)
            finally:
                await producer.close(self._config.drain_ms / 1000 if not producer.fatal else 0.0)

    async def _drive(
        self, producer: WorkloadProducer, sends: Sends, stopped: Signal, first_partition: int
    ) -> None:
        """Send until the stop, or until the producer has made its sends or cannot go on."""
        turns = RoundRobin(self._config, self._loop.time, first_partition)
        while not (self._stop.is_set() or sends.complete) and producer.fatal is None:
            if turns.send_due(producer, sends) == SENDS_PER_POLL:
                await asyncio.sleep(0)
            elif (wait_s := turns.wait_s()) > 0:
                await stopped.wait(min(CHECK_S, wait_s))
            else:
                await producer.progress.wait(PROGRESS_S)

    async def consume(self, reads: Reads) -> None:
        """Run a consumer of all partitions. Raises ClientBroken."""
        stopped = self._stop_signal()
        consumer = await self._consumer(reads, stopped)
        if consumer is None:
            return
        try:
            while not self._stop.is_set():
                if consumer.fatal is not None:
                    raise ClientBroken(f"consumer {reads.client}: {consumer.fatal}")
                await stopped.wait(CHECK_S)
        finally:
            await consumer.close()

    async def _consumer(self, reads: Reads, stopped: Signal) -> WorkloadConsumer | None:
        """Return a consumer when it is connected; None when the stop comes first."""
        beginning = dict.fromkeys(range(self._config.partitions), 0)
        while not self._stop.is_set():
            try:
                return await self._library.consumer(reads, beginning)
            except NotConnected as error:
                reads.note(str(error))
                await stopped.wait(CONNECT_RETRY_S)
        return None
