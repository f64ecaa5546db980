"""Producers that write transactions, and consumers that read them, with our own client.

A producer writes one transaction after the other: some records to some partitions of its topic, and
commits or aborts. Some producers leave a transaction open. Then the next producer takes over the
transactional id, and the old one comes back as a zombie: it goes on with its transaction, which the
brokers must refuse.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from harness.plans.workloads import TransactionWorkload
from harness.recording.history import OperationWriter
from harness.workloads.client_histories import FurtherHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.recording import RecordingConsumer
from harness.workloads.clients.own.transactions import Fenced, Refused, TransactionalProducer
from harness.workloads.clients.transaction_sends import TransactionSends
from harness.workloads.environment import ClientEnvironment
from harness.workloads.further.rules import Patience, Place, places_of
from harness.workloads.further_config import FurtherConfig
from harness.workloads.pacing import Pace

RETRY_S: Final = 0.05
ZOMBIE_S: Final = 2.0
"""How long a zombie tries to go on."""
CHECK_S: Final = 0.5

R = TypeVar("R")


async def run_transactions(
    config: FurtherConfig,
    wanted: TransactionWorkload,
    writer: OperationWriter,
    world: ClientEnvironment,
    stop: asyncio.Event,
    tallies: list[Tally],
) -> None:
    """Run the producers and consumers of each topic; see `run.run_further`."""
    histories = FurtherHistories(config, writer, wanted.value_bytes)
    async with asyncio.TaskGroup() as group:
        for topic, partitions in config.partitions.items():
            for number in range(wanted.producers):
                tally = Tally()
                tallies.append(tally)
                each = _Writer(config, wanted, histories, world, stop, tally, topic, number)
                group.create_task(each.run())
            for _ in range(wanted.consumers):
                tally = Tally()
                tallies.append(tally)
                group.create_task(_read(config, histories, world, stop, tally, topic, partitions))


async def _read(
    config: FurtherConfig,
    histories: FurtherHistories,
    world: ClientEnvironment,
    stop: asyncio.Event,
    tally: Tally,
    topic: str,
    partitions: int,
) -> None:
    """Read all partitions of a topic at read_committed until the stop."""
    reads = histories.reads(histories.next_client(), topic, tally)
    settings = replace(world.consumer, read_committed=True)
    cluster = world.connect(config.bootstrap, topic, reads.client)
    consumer = RecordingConsumer(cluster, settings, reads, dict.fromkeys(range(partitions), 0))
    try:
        await stop.wait()
    finally:
        await consumer.close()


def patience_of(stop: asyncio.Event, drain_s: float) -> Patience:
    """Return the patience by the time of the running loop."""
    return Patience(stop, drain_s, asyncio.get_running_loop().time)


async def until_answered(patience: Patience, step: Callable[[], Awaitable[R]]) -> R:
    """Repeat a step until it is answered. Raises Unavailable if patience is over."""
    while True:
        try:
            return await step()
        except Unavailable:
            if patience.over:
                raise
        await asyncio.sleep(RETRY_S)


async def begin_producer(
    producer: TransactionalProducer, sends: TransactionSends, patience: Patience
) -> bool:
    """Take over the transactional id, and record it; return whether that was answered."""
    invoke_ns = sends.now_ns()
    try:
        await until_answered(patience, producer.init)
    except (Fenced, Refused) as error:
        sends.initialized(Outcome.FAIL, invoke_ns, error=str(error))
        return False
    except Unavailable as error:
        sends.initialized(Outcome.INFO, invoke_ns, error=str(error))
        return False
    sends.initialized(Outcome.OK, invoke_ns)
    return True


async def end_transaction(
    producer: TransactionalProducer, sends: TransactionSends, patience: Patience, *, commit: bool
) -> bool:
    """Commit or abort, and record the outcome; return whether the producer may go on.

    A commit that is refused surely did not happen only if no earlier request for it is unanswered.
    """
    invoke_ns, asked = sends.now_ns(), 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        await producer.end(commit=commit)

    record = sends.committed if commit else sends.aborted
    try:
        await until_answered(patience, ask)
    except (Fenced, Refused) as error:
        record(Outcome.FAIL if asked == 1 else Outcome.INFO, invoke_ns, error=str(error))
        return False
    except Unavailable as error:
        record(Outcome.INFO, invoke_ns, error=str(error))
        return False
    record(Outcome.OK, invoke_ns)
    return True


class _Writer:
    """One producer after the other with one transactional id."""

    def __init__(
        self,
        config: FurtherConfig,
        wanted: TransactionWorkload,
        histories: FurtherHistories,
        world: ClientEnvironment,
        stop: asyncio.Event,
        tally: Tally,
        topic: str,
        number: int,
    ) -> None:
        self._config = config
        self._wanted = wanted
        self._histories = histories
        self._world = world
        self._stop = stop
        self._tally = tally
        self._topic = topic
        self._transactional_id = f"{config.name}-{topic}-{number}"
        self._rng = random.Random(world.rng.getrandbits(64))
        self._patience = patience_of(stop, config.drain_ms / 1000)

    async def run(self) -> None:
        """Write transactions until the stop. A producer that cannot go on is replaced."""
        zombies: set[asyncio.Task[None]] = set()
        pace = Pace(self._wanted.rate_per_s, asyncio.get_running_loop().time())
        while not self._stop.is_set():
            producer, sends = self._new_producer()
            sends.open()
            begun = await begin_producer(producer, sends, self._patience)
            if begun and await self._write(producer, sends, pace):
                zombie = asyncio.create_task(self._come_back(producer, sends))
                zombies.add(zombie)
                zombie.add_done_callback(zombies.discard)
                continue
            await self._close(producer, sends)
            await asyncio.sleep(RETRY_S)
        await asyncio.gather(*zombies)

    def _new_producer(self) -> tuple[TransactionalProducer, TransactionSends]:
        client = self._histories.next_client()
        sends = self._histories.transactions(
            client, self._topic, self._transactional_id, self._tally
        )
        connect = partial(self._world.connect, self._config.bootstrap, client=client)
        cluster = connect(self._topic)
        several = self._wanted.topics_each > 1
        others = [topic for topic in self._config.partitions if topic != self._topic and several]
        timeout_s = self._wanted.transaction_timeout_ms / 1000
        producer = TransactionalProducer(
            cluster, self._transactional_id, timeout_s, second=None, others=[*map(connect, others)]
        )
        return producer, sends

    async def _close(self, producer: TransactionalProducer, sends: TransactionSends) -> None:
        sends.left_open()
        sends.close()
        for cluster in (producer.cluster, *producer.others):
            await cluster.close()

    async def _write(
        self, producer: TransactionalProducer, sends: TransactionSends, pace: Pace
    ) -> bool:
        """Write transactions until the stop, or until the producer cannot go on; return whether it
        vanished in a transaction."""
        loop = asyncio.get_running_loop()
        may_vanish = self._histories.is_replaceable(sends.client)
        while not (self._stop.is_set() or sends.used_up):
            if (wait_s := pace.wait_s(loop.time())) > 0:
                await asyncio.sleep(min(wait_s, CHECK_S))
                continue
            pace.sent(loop.time())
            sends.begin()
            try:
                vanish = may_vanish and self._rng.random() < self._wanted.open_share
                await self._write_records(producer, sends, self._patience)
            except (Fenced, Unavailable) as error:
                sends.left_open(error=str(error))
                return False
            except Refused as error:
                sends.note(str(error))
                if not await end_transaction(producer, sends, self._patience, commit=False):
                    return False
                continue
            if vanish:
                return True
            commit = self._rng.random() >= self._wanted.abort_share
            if not await end_transaction(producer, sends, self._patience, commit=commit):
                return False
        return False

    async def _write_records(
        self, producer: TransactionalProducer, sends: TransactionSends, patience: Patience
    ) -> None:
        """Write the records of a transaction: a batch to each of some partitions."""
        places = places_of(self._wanted, self._topic, self._config.partitions, self._rng)
        for place in places:
            records = [sends.send(place.partition, topic=place.topic) for _ in range(place.records)]
            await write_batch(
                producer, sends, patience, place, records, self._world.wall_clock_ms()
            )

    async def _come_back(self, producer: TransactionalProducer, sends: TransactionSends) -> None:
        """Be a zombie: go on with a transaction after another producer has taken over."""
        await asyncio.sleep(self._rng.uniform(0, ZOMBIE_S))
        patience = patience_of(self._stop, 0.0)
        try:
            await self._write_records(producer, sends, patience)
            await end_transaction(producer, sends, patience, commit=True)
        except (Fenced, Refused, Unavailable) as error:
            sends.left_open(error=str(error))
        await self._close(producer, sends)


async def write_batch(
    producer: TransactionalProducer,
    sends: TransactionSends,
    patience: Patience,
    place: Place,
    records: list[tuple[int, bytes]],
    timestamp_ms: int,
) -> None:
    """Append records (value, payload) to a partition as one batch. Raises Fenced, Refused,
    Unavailable."""
    payloads = [payload for _, payload in records]
    write = partial(producer.write, place.partition, payloads, timestamp_ms, topic=place.topic)
    base_offset = await until_answered(patience, write)
    for index, (value, _) in enumerate(records):
        sends.appended(value, base_offset + index)
