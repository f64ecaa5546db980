"""The clients of one topic, on our own asyncio client: in a process, or on any other event loop.

    python -m harness.workloads.own CONFIG.json

does what `harness.workloads.client` does with librdkafka: it runs until SIGTERM or until its
standard input closes, prints its counters once a second, and ends in order. `run_workload` is the
same without the process; it takes clocks and chance from outside and starts no thread, so that a
simulated loop can run it.
"""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvloop

from harness.clients.librdkafka import BATCH_MESSAGES, REQUEST_TIMEOUT_MS
from harness.clients.own.cluster import Cluster, Timing
from harness.clients.own.consumer import ConsumerSettings
from harness.clients.own.line import Limits
from harness.clients.own.producer import ProducerSettings
from harness.clients.own.recording import (
    WORKLOAD_CONSUMER,
    RecordingConsumer,
    RecordingProducer,
    connect,
)
from harness.clients.own.waiting import Signal
from harness.clients.tally import Tally
from harness.history import FLUSH_INTERVAL_S, HistoryWriter, Operations
from harness.payload import PayloadCodec
from harness.workloads.client import SENDS_PER_POLL, STAT_INTERVAL_S, free_partition, stat_line
from harness.workloads.config import ClientConfig
from harness.workloads.pacing import Pace

PROGRESS_S: Final = 0.1
"""How late a producer that waits for outcomes notices a stop."""
LOOK_S: Final = 1.0
"""How late a client that rests notices that it is broken."""


class ClientBroken(Exception):
    """A client met what it cannot handle; the message says what."""


@dataclass(slots=True, kw_only=True)
class World:
    """What clients take from outside: chance, the time of day, and how patient and how eager they
    are, which decides how many requests there are."""

    rng: random.Random
    wall_clock_ms: Callable[[], int]
    timing: Timing = field(default_factory=Timing)
    consumer: ConsumerSettings = WORKLOAD_CONSUMER


async def run_workload(
    config: ClientConfig,
    writer: Operations,
    world: World,
    stop: asyncio.Event,
    tallies: list[Tally],
) -> None:
    """Run the topic's producers and consumers until `stop` is set; then they end in order.

    A tally of every client is appended to `tallies`. Raises an ExceptionGroup with ClientBroken or
    whatever else a client failed of; the others are ended then.
    """
    numbers = itertools.count(config.first_client)
    clients = _Clients(config, writer, world, stop)
    async with asyncio.TaskGroup() as group:
        group.create_task(clients.tell_of_stop())
        for index in range(config.producers + config.consumers):
            tally = Tally()
            tallies.append(tally)
            if index < config.producers:
                group.create_task(clients.produce(index, numbers.__next__, tally))
            else:
                group.create_task(clients.consume(next(numbers), tally))


class _Clients:
    """What the clients of one workload share."""

    def __init__(
        self, config: ClientConfig, writer: Operations, world: World, stop: asyncio.Event
    ) -> None:
        self._config = config
        self._writer = writer
        self._world = world
        self._stop = stop
        self._resting: list[Signal] = []
        """To tell those who rest of a stop."""
        self._codec = PayloadCodec(config.run_id, config.value_bytes)
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

    async def produce(self, index: int, number: Callable[[], int], tally: Tally) -> None:
        """A producer, and its successors under new numbers when it cannot go on."""
        rest = self._rest()
        while not self._stop.is_set():
            producer = self._producer(number(), tally)
            try:
                await self._drive(producer, rest, first_partition=index)
            finally:
                await producer.close(self._config.drain_ms / 1000 if not producer.fatal else 0.0)

    def _producer(self, client: int, tally: Tally) -> RecordingProducer:
        config, world = self._config, self._world
        settings = ProducerSettings(
            acks=config.acks,
            idempotence=config.idempotence,
            limits=Limits(
                messages=BATCH_MESSAGES,
                linger_s=config.linger_ms / 1000,
                timeout_s=config.message_timeout_ms / 1000,
            ),
            replication_s=min(REQUEST_TIMEOUT_MS, config.message_timeout_ms) / 1000,
        )
        return RecordingProducer(
            self._connect(client),
            settings,
            client=client,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
            wall_clock_ms=world.wall_clock_ms,
        )

    def _connect(self, client: int) -> Cluster:
        config, world = self._config, self._world
        return connect(
            config.bootstrap, config.topic, client=client, rng=world.rng, timing=world.timing
        )

    async def _drive(self, producer: RecordingProducer, rest: Signal, first_partition: int) -> None:
        """Send round-robin until told to stop or the producer broke; see the librdkafka clients."""
        config, loop = self._config, self._loop
        limit = max(1, config.max_in_flight)
        share = max(1, config.max_in_flight // config.partitions)
        pace = Pace(config.rate_per_s, loop.time())
        position = first_partition
        while not self._stop.is_set() and producer.fatal is None:
            sends = 0
            while sends < SENDS_PER_POLL and pace.wait_s(loop.time()) == 0:
                target = free_partition(producer.in_flight, position, config.partitions, share)
                if target is None or producer.pending >= limit:
                    break
                producer.send(target)
                pace.sent(loop.time())
                position = target + 1
                sends += 1
            if sends == SENDS_PER_POLL:
                await asyncio.sleep(0)
            elif (wait_s := pace.wait_s(loop.time())) > 0:
                await rest.wait(min(LOOK_S, wait_s))
            else:
                await producer.progress.wait(PROGRESS_S)

    async def consume(self, client: int, tally: Tally) -> None:
        """A consumer of all partitions. Raises ClientBroken."""
        consumer = RecordingConsumer(
            self._connect(client),
            self._world.consumer,
            dict.fromkeys(range(self._config.partitions), 0),
            client=client,
            writer=self._writer,
            codec=self._codec,
            tally=tally,
        )
        rest = self._rest()
        try:
            while not self._stop.is_set():
                if consumer.fatal is not None:
                    raise ClientBroken(f"consumer {client}: {consumer.fatal}")
                await rest.wait(LOOK_S)
        finally:
            await consumer.close()


async def run(config: ClientConfig) -> int:
    """Run the workload of one process until it is told to stop; returns its exit code."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the harness, which ends us
    os.set_blocking(sys.stdin.fileno(), False)
    loop.add_reader(sys.stdin.fileno(), _watch_stdin, stop)
    writer = HistoryWriter(
        Path(config.history_dir) / f"{config.topic}.{config.first_client}.arrows",
        writer_id=config.first_client,
        base_ns=config.base_ns,
        rotate_s=config.rotate_s,
    )
    tallies: list[Tally] = []
    world = World(rng=random.Random(), wall_clock_ms=lambda: time.time_ns() // 1_000_000)
    workload = loop.create_task(run_workload(config, writer, world, stop, tallies))
    next_stat_s = loop.time()
    while not workload.done():
        await asyncio.wait([workload], timeout=FLUSH_INTERVAL_S)
        writer.flush()
        if loop.time() >= next_stat_s or workload.done():
            next_stat_s += STAT_INTERVAL_S
            _print_stat(config, tallies, writer)
    writer.close()
    workload.result()
    return 0


def _watch_stdin(stop: asyncio.Event) -> None:
    with contextlib.suppress(BlockingIOError):
        if not os.read(sys.stdin.fileno(), 4096):
            stop.set()
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())


def _print_stat(config: ClientConfig, tallies: list[Tally], writer: HistoryWriter) -> None:
    line = stat_line(config.topic, config.acks, tallies, writer.now_ns())
    with contextlib.suppress(OSError):  # the reader died: the history matters, the line does not
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def main(argv: list[str]) -> int:
    """Entry point of the process."""
    code: int = uvloop.run(run(ClientConfig.load(Path(argv[1]))))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
