"""Transactional producers that write to a topic of their own, and what is seen of it in the end.

With `repeats` a producer sends the end of a transaction again, right after it and in the next
transaction, and the marker of a transaction in the next one, as a network does that delivers a
request late. With `pauses` some producers wait within a transaction, also for longer than it may
take, and go on.

A producer that `gives_up` speaks the first version of the protocol. It waits for a batch for a
short time only, and then aborts. After that it begins anew with a new epoch, as Kafka's producers
do after delivery.timeout.ms, or another one takes its place with another transactional id. The
batch may still arrive. It must not open a transaction: nobody would end that.

They are judged by `harness.simulation.invariants.transactions`, and nothing of them is recorded.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeVar

from harness.simulation.committed_reads import read_committed
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.transactions import End, Transaction, Transactions
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.transactions import (
    AGAIN,
    Fenced,
    Refused,
    TransactionalProducer,
)

TOPIC: Final = "highwater.transactions"
PARTITIONS: Final = 3
TIMEOUT_S: Final = 4.0
SHORT_TIMEOUT_S: Final = 1.5
"""How long transactions may take if producers are slow."""
SLOW_S: Final = (0.2, 3.5)
SLOW_SHARE: Final = 0.1
REPEAT_SHARE: Final = 0.5
PAUSE_S: Final = (0.02, 0.3)
RETRY_S: Final = 0.05
PATIENCE_S: Final = (0.03, 0.1, 0.15, 0.5)
"""How long producers that give batches up wait for one: shorter and longer than TCP's
retransmission of a lost packet."""
REPLACED_SHARE: Final = 0.5

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionWork:
    """What all producers share. `report` takes what an answer breaks."""

    transactions: Transactions
    wall_clock_ms: Callable[[], int]
    stop: asyncio.Event
    report: Callable[[InvariantBroken], None]
    repeats: bool = False
    pauses: bool = False
    gives_up: bool = False


async def write_transactions(
    work: TransactionWork,
    cluster: Cluster,
    transactional_id: str,
    *,
    rng: random.Random,
) -> None:
    """Write one transaction after the other until the stop.

    A producer that is fenced begins anew. Several calls with one id fence each other. Some
    producers vanish in a transaction.
    """
    stop = work.stop
    timeout_s = SHORT_TIMEOUT_S if work.pauses else TIMEOUT_S
    replaced = 0
    while not stop.is_set():
        name = f"{transactional_id}-{replaced}" if replaced else transactional_id
        producer = TransactionalProducer(cluster, name, timeout_s, not work.gives_up)
        writer = _Writer(work, producer, rng)
        try:
            await until_answered(producer.init, stop)
            for _ in range(rng.randint(1, 8)):
                if stop.is_set():
                    break
                await writer.write()
                await asyncio.sleep(rng.uniform(*PAUSE_S))
        except (Fenced, Refused, Unavailable):
            await asyncio.sleep(rng.uniform(*PAUSE_S))
        except _GaveUp:
            replaced += rng.random() < REPLACED_SHARE
            await asyncio.sleep(rng.uniform(*PAUSE_S))


class _GaveUp(Exception):
    """A batch was given up, and its transaction aborted."""


class _Ended(NamedTuple):
    """A transaction whose end was acknowledged."""

    stamp: tuple[int, int]
    """Producer id and epoch."""
    transaction: Transaction
    commit: bool


class _Writer:
    """The transactions of one producer."""

    def __init__(
        self, work: TransactionWork, producer: TransactionalProducer, rng: random.Random
    ) -> None:
        self._work = work
        self._producer = producer
        self._rng = rng
        self._last: _Ended | None = None

    async def write(self) -> None:
        """Write a transaction. Raises Fenced, Refused, Unavailable, _GaveUp: the producer ends."""
        work, producer, rng = self._work, self._producer, self._rng
        transaction = work.transactions.begin()
        partitions = rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS))
        value = b"%d" % transaction.number
        for partition in partitions:
            transaction.partitions.append(partition)
            await self._append(partition, value)
            if rng.random() < 0.03:
                raise Unavailable("vanished")
            paused = work.pauses and rng.random() < SLOW_SHARE
            if paused:
                await asyncio.sleep(rng.uniform(*SLOW_S))
            if work.repeats:
                await self._repeat_in_next(partition, still_open=not paused)
        commit = rng.random() < 0.75
        if commit:
            transaction.end = End.UNKNOWN
        stamp = producer.producer_id, producer.epoch
        await until_answered(partial(producer.end, commit=commit), work.stop)
        if commit:
            transaction.end = End.COMMITTED
        if work.repeats:
            self._last = _Ended(stamp, transaction, commit)
            await self._repeat(self._last)

    async def _append(self, partition: int, value: bytes) -> None:
        """Append a batch. Raises _GaveUp if it is given up."""
        work, producer = self._work, self._producer
        write = partial(producer.write, partition, [value], work.wall_clock_ms())
        if not work.gives_up:
            await until_answered(write, work.stop)
            return
        await until_answered(partial(producer.add, partition), work.stop)
        try:
            async with asyncio.timeout(self._rng.choice(PATIENCE_S)):
                await until_answered(write, work.stop)
        except TimeoutError:
            await until_answered(partial(producer.end, commit=False), work.stop)
            raise _GaveUp from None

    async def _repeat(self, ended: _Ended) -> None:
        """Ask for the end again, as after an answer that was lost."""
        if self._rng.random() >= REPEAT_SHARE:
            return
        again = partial(self._producer.end_again, ended.stamp, commit=ended.commit)
        while (code := (await until_answered(again, self._work.stop))[0]) in AGAIN:
            if self._work.stop.is_set():
                return
            await asyncio.sleep(RETRY_S)
        with self._reported():
            self._work.transactions.repeated(ended.transaction, code)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except InvariantBroken as broken:
            self._work.report(broken)

    async def _repeat_in_next(self, partition: int, *, still_open: bool) -> None:
        """Send a request of the last transaction again, in this one. Unless that is `still_open`,
        it may have been aborted, and the partition may have forgotten the producer since: then a
        marker ends nothing there.
        """
        last, producer = self._last, self._producer
        if last is None or self._rng.random() >= REPEAT_SHARE:
            return
        with suppress(Unavailable):
            if self._rng.random() < 0.5:
                code, named = await producer.end_again(last.stamp, commit=last.commit)
                ended_another = named != (producer.producer_id, producer.epoch)
                with self._reported():
                    self._work.transactions.late(last.transaction, code, ended_another)
            else:
                code = await producer.mark_again(partition, commit=last.commit)
                if still_open:
                    with self._reported():
                        self._work.transactions.late_marker(last.transaction, partition, code)


async def until_answered(step: Callable[[], Awaitable[R]], stop: asyncio.Event) -> R:
    """Repeat a step. Raises Unavailable when `stop` is set."""
    while True:
        try:
            return await step()
        except Unavailable:
            if stop.is_set():
                raise
            await asyncio.sleep(RETRY_S)


async def check_transactions(cluster: Cluster, transactions: Transactions) -> None:
    """Read the whole topic as a reader of committed records, and judge. Raises InvariantBroken."""
    seen = {
        partition: [int(each.value or b"") for each in await read_committed(cluster, partition)]
        for partition in range(PARTITIONS)
    }
    transactions.check(seen)
