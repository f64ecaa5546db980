"""The clients of a simulated run that invariants judge, and that no history records.

They ask for offsets by time, take part in consumer groups, keep offsets of groups without members,
write transactions, write and delete keys of a compacted topic, and send unusual and wrong batches,
as the table `[simulated]` of the plan says.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from checkers.history.settings import PRODUCER_EXPIRATION
from harness.plans.plan import Plan, Simulated, Topic
from harness.simulation import batch_work, keyed_work
from harness.simulation.group_work import make_member, take_part
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.commits import Commits
from harness.simulation.invariants.keyed_values import KeyedValues
from harness.simulation.invariants.sent_batches import SentBatches
from harness.simulation.invariants.transactions import Transactions
from harness.simulation.invariants.wall_clock import LONG_MS
from harness.simulation.lookups import ask_by_time
from harness.simulation.offset_work import OffsetKeeper
from harness.simulation.transaction_work import (
    PARTITIONS,
    TOPIC,
    TransactionWork,
    check_transactions,
    write_transactions,
)
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.environment import ClientEnvironment

FIRST_CLIENT: Final = 500
"""The number in the client id of the first of these clients."""

KEEPERS_WAIT_S: Final = (3.0, 30.0)
"""How long a client waits for an answer: as the other clients, or as Kafka's own by default."""
OFFSET_RETENTION: Final = "offsets.retention.minutes"
CLOCK_ERROR_S: Final = 0.1
DELETE_RETENTION: Final = "log.cleaner.delete.retention.ms"

Environment = Callable[[str], ClientEnvironment]


class UnrecordedClients:
    """See the module. `environment` gives each client its randomness, by its purpose.

    `report` takes what is wrong unless records were lost with permission, `surely` what is wrong in
    any case. `clocks_changed` tells whether a fault ever changed a node's clock.
    """

    def __init__(
        self,
        plan: Plan,
        environment: Environment,
        report: Callable[[InvariantBroken], None],
        surely: Callable[[InvariantBroken], None],
        *,
        clocks_changed: Callable[[], bool],
    ) -> None:
        self.transactions = Transactions()
        self._deletions_stay = int(plan.broker.get(DELETE_RETENTION, LONG_MS)) >= LONG_MS
        producers_stay = int(plan.broker.get(PRODUCER_EXPIRATION, LONG_MS)) >= LONG_MS
        self.keyed = KeyedValues(
            deletions_stay=self._deletions_stay, ends_stay=self._deletions_stay or producers_stay
        )
        self.commits: list[Commits] = []
        self.batches = [*map(SentBatches, range(plan.simulated.unusual_producers))]
        self._plan = plan
        self._bootstrap = ""
        self._environment = environment
        self._report = report
        self._surely = surely
        self._clocks_changed = clocks_changed
        self._connected = 0

    def topics(self) -> tuple[Topic, ...]:
        """Return the topics that these clients need beside the plan's."""
        simulated = self._plan.simulated
        transactions = Topic(name=TOPIC, partitions=PARTITIONS, acks=-1)
        return (
            *((transactions,) if _transactional(simulated) else ()),
            *((keyed_work.topic(),) if simulated.compacting_producers else ()),
            *((batch_work.topic(len(self.batches)),) if self.batches else ()),
        )

    @property
    def wrote(self) -> bool:
        """Whether there is anything to judge in the end."""
        return bool(self.transactions.begun or self.keyed.begun or self.batches)

    async def check(self, bootstrap: str) -> None:
        """Judge what was written, in the healed cluster. Raises InvariantBroken."""
        self._bootstrap = bootstrap
        if self.transactions.begun:
            cluster = self._connect(TOPIC, self._environment("transactions, in the end"))
            await check_transactions(cluster, self.transactions)
            await cluster.close()
        if self.keyed.begun:
            world = self._environment("keys, in the end")
            cluster = self._connect(keyed_work.TOPIC, world)
            await keyed_work.check_keys(cluster, self.keyed, world.wall_clock_ms)
            await cluster.close()
        if self.batches:
            world = self._environment("batches, in the end")
            cluster = self._connect(batch_work.TOPIC, world)
            for sent in self.batches:
                await batch_work.check_batches(cluster, sent, world.rng)
            await cluster.close()

    def work(self, bootstrap: str, stop: asyncio.Event) -> Iterator[Coroutine[Any, Any, None]]:
        """Return what the clients do until `stop` is set, a coroutine for each."""
        self._bootstrap = bootstrap
        simulated = self._plan.simulated
        if simulated.lookups_per_s:
            yield ask_by_time(
                self._bootstrap,
                self._plan.topics,
                simulated.lookups_per_s,
                self._environment("lookups"),
                stop,
            )
        if simulated.group_members:
            yield from self._members(stop, simulated.group_members)
        for number in range(simulated.transactional_producers):
            yield self._producer(number, stop)
        for number in range(simulated.impatient_producers):
            yield self._impatient_producer(number, stop)
        for number in range(simulated.compacting_producers):
            yield self._compacting_producer(number, stop)
        for number in range(simulated.offset_keepers):
            yield self._offset_keeper(number, stop)
        for sent in self.batches:
            yield self._unusual_producer(sent, stop)

    def _members(self, stop: asyncio.Event, count: int) -> Iterator[Coroutine[Any, Any, None]]:
        for group, classic in (("classic", True), ("consumer", False)):
            commits = Commits(group)
            self.commits.append(commits)
            for number in range(count):
                world = self._environment(f"group {group}, member {number}")
                yield self._member(commits, world, stop, number, classic=classic)

    async def _member(
        self,
        commits: Commits,
        world: ClientEnvironment,
        stop: asyncio.Event,
        number: int,
        *,
        classic: bool,
    ) -> None:
        topic = self._plan.topics[0]
        cluster = self._connect(topic.name, world)
        topic_id = None if classic else await _topic_id(cluster, stop)
        instance_id = f"static-{number}" if world.rng.random() < 0.3 else None
        make = partial(make_member, cluster, commits.group, topic.partitions, topic_id, instance_id)
        simulated = self._plan.simulated
        await take_part(
            make,
            commits,
            world.rng,
            stop,
            self._report,
            repeats=simulated.repeats,
            pauses=simulated.pauses,
        )
        await cluster.close()

    async def _producer(self, number: int, stop: asyncio.Event) -> None:
        world = self._environment(f"transactions {number}")
        rng: random.Random = world.rng
        shared = rng.random() < 0.3  # then two producers fence each other
        simulated = self._plan.simulated
        work = replace(
            self._transaction_work(world, stop), repeats=simulated.repeats, pauses=simulated.pauses
        )
        await self._write(work, world, f"writer-{number // 2 if shared else number}")

    async def _impatient_producer(self, number: int, stop: asyncio.Event) -> None:
        world = self._environment(f"impatient transactions {number}")
        work = replace(self._transaction_work(world, stop), gives_up=True)
        await self._write(work, world, f"impatient-{number}")

    def _transaction_work(self, world: ClientEnvironment, stop: asyncio.Event) -> TransactionWork:
        return TransactionWork(
            transactions=self.transactions,
            wall_clock_ms=world.wall_clock_ms,
            stop=stop,
            report=self._report,
        )

    async def _write(
        self, work: TransactionWork, world: ClientEnvironment, transactional_id: str
    ) -> None:
        cluster = self._connect(TOPIC, world)
        await write_transactions(work, cluster, transactional_id, rng=world.rng)
        await cluster.close()

    async def _compacting_producer(self, number: int, stop: asyncio.Event) -> None:
        world = self._environment(f"keys {number}")
        cluster = self._connect(keyed_work.TOPIC, world)
        writer = keyed_work.KeyedWriter(
            cluster,
            f"keys-{number}",
            self.keyed,
            rng=world.rng,
            wall_clock_ms=world.wall_clock_ms,
            stop=stop,
            broker_keys=number == 0 and self._plan.simulated.broker_keys,
        )
        await writer.run()
        await cluster.close()

    async def _offset_keeper(self, number: int, stop: asyncio.Event) -> None:
        world = self._environment(f"offsets {number}")
        world.timing = replace(world.timing, request_s=world.rng.choice(KEEPERS_WAIT_S))
        topic = self._plan.topics[0]
        cluster = self._connect(topic.name, world)
        keeper = OffsetKeeper(
            cluster,
            f"keeper-{number}",
            partitions=topic.partitions,
            may_have_expired=self._may_have_expired,
            deletions_stay=self._deletions_stay,
            rng=world.rng,
            stop=stop,
            report=self._report,
        )
        await keeper.run()
        await cluster.close()

    def _may_have_expired(self, age_s: float) -> bool:
        """Whether offsets that are at most so old may be removed: coordinators go by wall clocks,
        which show whole milliseconds.
        """
        minutes = self._plan.broker.get(OFFSET_RETENTION)
        if minutes is None:
            return False
        return self._clocks_changed() or age_s > 60 * int(minutes) - CLOCK_ERROR_S

    async def _unusual_producer(self, sent: SentBatches, stop: asyncio.Event) -> None:
        world = self._environment(f"unusual batches {sent.partition}")
        on_answer, world.on_answer = world.on_answer, None  # which judges valid requests only
        assert on_answer is not None
        cluster = self._connect(batch_work.TOPIC, world)
        producer = batch_work.BatchProducer(
            cluster,
            sent,
            rng=world.rng,
            wall_clock_ms=world.wall_clock_ms,
            stop=stop,
            on_answer=on_answer,
            report=self._report,
            surely=self._surely,
        )
        await producer.run()
        await cluster.close()

    def _connect(self, topic: str, world: ClientEnvironment) -> Cluster:
        self._connected += 1
        number = FIRST_CLIENT + self._connected
        return world.connect(self._bootstrap, topic, number)


def _transactional(simulated: Simulated) -> bool:
    return bool(simulated.transactional_producers or simulated.impatient_producers)


async def _topic_id(cluster: Cluster, stop: asyncio.Event) -> UUID | None:
    """Return the id of the cluster's topic, once a broker has named it."""
    while not stop.is_set():
        if cluster.topic_id is not None:
            return cluster.topic_id
        await asyncio.sleep(0.1)
    return None
