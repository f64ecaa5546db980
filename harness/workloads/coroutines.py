"""The clients of one topic as coroutines: what they do, whatever library they are of.

They start no thread and take no time but the loop's, so that a simulated loop can run them. What
`harness.workloads.threads` does is the same.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from harness.recording.history import OperationWriter
from harness.workloads.client_histories import Ledgers
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.outcomes import NotConnected
from harness.workloads.clients.own.waiting import Signal
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig
from harness.workloads.pacing import CONNECT_RETRY_S, SENDS_PER_POLL, Pace, free_partition

PROGRESS_S: Final = 0.1
"""How late a producer that waits for outcomes notices a stop."""
LOOK_S: Final = 1.0
"""How late a client that rests notices that it is broken."""


class ClientBroken(Exception):
    """A client met what it cannot handle; the message says what."""


class Producing(Protocol):
    """A producer that records what becomes of its sends."""

    progress: Signal

    @property
    def fatal(self) -> str | None:
        """Why this instance cannot send any more."""
        ...

    def send(self, partition: int) -> None:
        """Start one send."""
        ...

    async def close(self, timeout_s: float) -> None:
        """Wait so long for outcomes, then end the client."""
        ...


class Consuming(Protocol):
    """A consumer that reads, and records what, by itself."""

    @property
    def fatal(self) -> str | None:
        """Why this instance cannot read any more."""
        ...

    async def close(self) -> None:
        """End the client."""
        ...


class Library(Protocol):
    """Makes the clients of one topic. Raises NotConnected."""

    async def producer(self, sends: Sends) -> Producing:
        """A producer that records its sends there."""
        ...

    async def consumer(self, reads: Reads, offsets: Mapping[int, int]) -> Consuming:
        """A consumer from {partition: next offset} on that records its reads there."""
        ...


async def run_clients(
    config: ClientConfig,
    library: Library,
    writer: OperationWriter,
    stop: asyncio.Event,
    tallies: list[Tally],
) -> None:
    """Run the topic's producers and consumers until `stop` is set; then they end in order.

    A tally of every client is appended to `tallies`. Raises an ExceptionGroup with ClientBroken or
    whatever else a client failed of; the others are ended then.
    """
    ledgers = Ledgers(config, writer)
    clients = _Clients(config, library, stop)
    async with asyncio.TaskGroup() as group:
        group.create_task(clients.tell_of_stop())
        for index in range(config.producers + config.consumers):
            tally = Tally()
            tallies.append(tally)
            if index < config.producers:
                group.create_task(clients.produce(index, ledgers, tally))
            else:
                group.create_task(clients.consume(ledgers.reads(tally)))


class _Clients:
    """What the clients of one workload share."""

    def __init__(self, config: ClientConfig, library: Library, stop: asyncio.Event) -> None:
        self._config = config
        self._library = library
        self._stop = stop
        self._resting: list[Signal] = []
        """To tell those who rest of a stop."""
        self._loop = asyncio.get_running_loop()

    async def tell_of_stop(self) -> None:
        """Wake everybody when it is time to stop."""
        await self._stop.wait()
        for rest in self._resting:
            rest.set()

    def _rest(self) -> Signal:
        """What a client waits for that has nothing to do: a stop."""
        rest = Signal()
        self._resting.append(rest)
        return rest

    async def produce(self, index: int, ledgers: Ledgers, tally: Tally) -> None:
        """A producer, and its successors under new numbers when it cannot go on."""
        rest = self._rest()
        while not self._stop.is_set():
            sends = ledgers.sends(tally)
            try:
                producer = await self._library.producer(sends)
            except NotConnected as error:
                sends.note(str(error))
                await rest.wait(CONNECT_RETRY_S)
                continue
            try:
                await self._drive(producer, sends, rest, first_partition=index)
            finally:
                await producer.close(self._config.drain_ms / 1000 if not producer.fatal else 0.0)

    async def _drive(
        self, producer: Producing, sends: Sends, rest: Signal, first_partition: int
    ) -> None:
        """Send round-robin until told to stop or the producer broke; see `threads`."""
        config, loop = self._config, self._loop
        limit = max(1, config.max_in_flight)
        share = max(1, config.max_in_flight // config.partitions)
        pace = Pace(config.rate_per_s, loop.time())
        position = first_partition
        while not self._stop.is_set() and producer.fatal is None:
            sent = 0
            while sent < SENDS_PER_POLL and pace.wait_s(loop.time()) == 0:
                target = free_partition(sends.in_flight, position, config.partitions, share)
                if target is None or sends.pending >= limit:
                    break
                producer.send(target)
                pace.sent(loop.time())
                position = target + 1
                sent += 1
            if sent == SENDS_PER_POLL:
                await asyncio.sleep(0)
            elif (wait_s := pace.wait_s(loop.time())) > 0:
                await rest.wait(min(LOOK_S, wait_s))
            else:
                await producer.progress.wait(PROGRESS_S)

    async def consume(self, reads: Reads) -> None:
        """A consumer of all partitions. Raises ClientBroken."""
        rest = self._rest()
        consumer = await self._consumer(reads, rest)
        if consumer is None:
            return
        try:
            while not self._stop.is_set():
                if consumer.fatal is not None:
                    raise ClientBroken(f"consumer {reads.client}: {consumer.fatal}")
                await rest.wait(LOOK_S)
        finally:
            await consumer.close()

    async def _consumer(self, reads: Reads, rest: Signal) -> Consuming | None:
        """A consumer once it is connected; None when there is a stop first."""
        beginning = dict.fromkeys(range(self._config.partitions), 0)
        while not self._stop.is_set():
            try:
                return await self._library.consumer(reads, beginning)
            except NotConnected as error:
                reads.note(str(error))
                await rest.wait(CONNECT_RETRY_S)
        return None
