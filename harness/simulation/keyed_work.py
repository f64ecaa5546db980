"""Producers that write and delete keys of a compacted topic, and what is seen of it in the end.

They are judged by `harness.simulation.invariants.keyed_values`, and nothing of them is recorded.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from harness.plans.plan import Topic
from harness.simulation.committed_reads import StaysOpen, answered_in_time, read_committed
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.keyed_values import KeyedTransaction, KeyedValues
from harness.simulation.invariants.sent_batches import REFUSED
from harness.simulation.invariants.transactions import End
from harness.simulation.raw_produce import RawProducer
from harness.simulation.transaction_work import PAUSE_S, TIMEOUT_S, until_answered
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.transactions import Fenced, Refused, TransactionalProducer
from nodes.log.batch import Record, encode_batch

TOPIC: Final = "highwater.compacted"
PARTITIONS: Final = 2
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "3000",
    "min.cleanable.dirty.ratio": "0.01",
}
"""Segments that are sealed and cleaned within seconds."""
KEYS_AT_A_TIME: Final = 4
TRANSACTIONS_EACH: Final = 4
"""A producer writes to few keys at a time, so that most records are superseded. After some
transactions it leaves the oldest key for good: then its last record must stay, or its tombstone for
its time."""
BROKER_KEYS: Final = (b"", b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\2")
"""Nothing, and the keys of the control records of aborts, commits and leader changes. The broker
must not take a user's key for its own."""
BROKER_KEYS_SHARE: Final = 0.1
WRITES: Final = (1, 4)
DELETIONS, ABORTS, VANISHES, NEW_IDS = 0.3, 0.2, 0.03, 0.3
"""Shares of writes, of transactions, of writes, and of producers with a transactional id of their
own: the batches of the last one are the last ones of its producer id for ever."""
KEYLESS: Final = (1, 3)
"""The records of the wrong batch that have no key."""


def topic() -> Topic:
    """Return the compacted topic."""
    return Topic(name=TOPIC, partitions=PARTITIONS, acks=-1, configs=CONFIGS)


class KeyedWriter:
    """Writes and deletes the keys of its own, which begin with `name`."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        values: KeyedValues,
        *,
        rng: random.Random,
        wall_clock_ms: Callable[[], int],
        stop: asyncio.Event,
        broker_keys: bool = False,
    ) -> None:
        """`broker_keys`: also write BROKER_KEYS, which one writer of a topic may do."""
        self._broker_keys = broker_keys
        self._cluster = cluster
        self._name = name
        self._values = values
        self._rng = rng
        self._wall_clock_ms = wall_clock_ms
        self._stop = stop
        self._begun = 0

    async def run(self) -> None:
        """Write one transaction after the other until the stop. A producer that is fenced begins
        anew.
        """
        rng, transactional_id = self._rng, self._name
        while not self._stop.is_set():
            if rng.random() < NEW_IDS:
                transactional_id = f"{self._name}-{rng.randrange(1 << 20)}"
            producer = TransactionalProducer(
                self._cluster, transactional_id, TIMEOUT_S, second=True
            )
            try:
                await until_answered(producer.init, self._stop)
                for _ in range(rng.randint(1, 8)):
                    if self._stop.is_set():
                        break
                    await self._write(producer, self._values.begin())
                    await asyncio.sleep(rng.uniform(*PAUSE_S))
            except (Fenced, Refused, Unavailable):
                await asyncio.sleep(rng.uniform(*PAUSE_S))

    async def _write(self, producer: TransactionalProducer, transaction: KeyedTransaction) -> None:
        rng, stop = self._rng, self._stop
        first_key, self._begun = self._begun // TRANSACTIONS_EACH, self._begun + 1
        for _ in range(rng.randint(*WRITES)):
            number = first_key + rng.randrange(KEYS_AT_A_TIME)
            key = f"{self._name}/{number}".encode()
            if self._broker_keys and rng.random() < BROKER_KEYS_SHARE:
                number = rng.randrange(len(BROKER_KEYS))
                key = BROKER_KEYS[number]
            value = None if rng.random() < DELETIONS else self._values.next_value()
            now_ms = self._wall_clock_ms()
            write = partial(producer.write, number % PARTITIONS, [value], now_ms, key)
            await until_answered(write, stop)
            transaction.values[key] = value
            if rng.random() < VANISHES:
                raise Unavailable("vanished")
        commit = rng.random() >= ABORTS
        if commit:
            transaction.end = End.UNKNOWN
        await until_answered(partial(producer.end, commit=commit), stop)
        if commit:
            transaction.end = End.COMMITTED


async def check_keys(
    cluster: Cluster, values: KeyedValues, wall_clock_ms: Callable[[], int]
) -> None:
    """Read the whole topic as a reader of committed records, and judge. Then send records without
    keys, which brokers must refuse. Raises InvariantBroken.

    A replica that lagged for longer than its leader kept the end of a transaction, and the state of
    its producer, leads with an open transaction (docs/compaction.md). Then nothing is judged.
    """
    try:
        values.check(await _read_keys(cluster))
    except StaysOpen:
        if values.ends_stay:
            raise
    await _check_refusal(RawProducer(cluster, 0), wall_clock_ms())


async def _read_keys(cluster: Cluster) -> dict[bytes, bytes | None]:
    """Return the last value of each key, as a reader of committed records."""
    seen: dict[bytes, bytes | None] = {}
    for partition in range(PARTITIONS):
        for record in await read_committed(cluster, partition):
            assert record.key is not None, "every record has a key"
            seen[record.key] = record.value
    return seen


async def _check_refusal(producer: RawProducer, now_ms: int) -> None:
    """Judge the answer to a batch of which some records have no key (Kafka's LogValidator: the
    answer names them).
    """
    records = [Record(key=None if at in KEYLESS else b"key", value=b"") for at in range(5)]
    row = await answered_in_time(
        partial(producer.judged, encode_batch(records, timestamp_ms=now_ms))
    )
    if row is None:
        return
    named = tuple(each.batch_index for each in row.record_errors)
    if row.error_code is not ErrorCode.invalid_record or named != KEYLESS:
        raise InvariantBroken(
            REFUSED,
            f"records {KEYLESS} of a batch for a compacted topic have no key, and the answer is"
            f" {row.error_code.name.upper()} for the records {named}",
        )
