"""Transactional producers that write to a topic of their own, and what is seen of it in the end.

They are judged by `harness.simulation.invariants.transactions`, and nothing of them is recorded.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from harness.simulation.committed_reads import read_committed
from harness.simulation.invariants.transactions import End, Transaction, Transactions
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.transactions import Fenced, Refused, TransactionalProducer

TOPIC: Final = "highwater.transactions"
PARTITIONS: Final = 3
TIMEOUT_S: Final = 4.0
PAUSE_S: Final = (0.02, 0.3)
RETRY_S: Final = 0.05

R = TypeVar("R")


async def write_transactions(
    cluster: Cluster,
    transactional_id: str,
    transactions: Transactions,
    *,
    second: bool,
    rng: random.Random,
    wall_clock_ms: Callable[[], int],
    stop: asyncio.Event,
) -> None:
    """Write one transaction after the other until `stop` is set.

    A producer that is fenced begins anew. Several calls with one id fence each other. Some
    producers vanish in a transaction.
    """
    while not stop.is_set():
        producer = TransactionalProducer(cluster, transactional_id, TIMEOUT_S, second)
        try:
            await until_answered(producer.init, stop)
            for _ in range(rng.randint(1, 8)):
                if stop.is_set():
                    break
                await _one(producer, transactions.begin(), rng, wall_clock_ms, stop)
                await asyncio.sleep(rng.uniform(*PAUSE_S))
        except (Fenced, Refused, Unavailable):
            await asyncio.sleep(rng.uniform(*PAUSE_S))


async def _one(
    producer: TransactionalProducer,
    transaction: Transaction,
    rng: random.Random,
    wall_clock_ms: Callable[[], int],
    stop: asyncio.Event,
) -> None:
    partitions = rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS))
    value = b"%d" % transaction.number
    for partition in partitions:
        transaction.partitions.append(partition)
        write = partial(producer.write, partition, [value], wall_clock_ms())
        await until_answered(write, stop)
        if rng.random() < 0.03:
            raise Unavailable("vanished")
    commit = rng.random() < 0.75
    if commit:
        transaction.end = End.UNKNOWN
    await until_answered(partial(producer.end, commit=commit), stop)
    if commit:
        transaction.end = End.COMMITTED


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
