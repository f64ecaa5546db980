"""The life of coordinators, to be ended at every storage operation (see `storage_crashes`).

One broker with all roles runs in a simulated world, with internal topics of small segments that are
cleaned all the time. Everything is flushed before it is acknowledged (flush.messages=1), so a loss
of power may take no more than a kill. Clients commit offsets and transactions, delete offsets and
groups, let offsets expire, fence each other, and change transaction.version. For a long run:

    python -m tests.tools.storage_crashes tests.support.nodes.coordinator_lives:CoordinatorLife
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.simulation.committed_reads import read_committed
from harness.simulation.invariants.coordinators import check_coordinator
from harness.workloads.clients.own.coordinator import Unavailable
from nodes.coordinators.transactions.coordinator import TransactionCoordinator
from nodes.coordinators.transactions.state import PREPARED
from nodes.coordinators.transactions.state import State as TransactionState
from nodes.server.broker import Broker
from nodes.server.coordinators.shard import Shard, State
from nodes.storage.disk import Disk
from tests.support.nodes.coordinator_clients import (
    ALL,
    CLASSIC,
    CONSUMER,
    FIRST,
    GONE,
    GROUPS,
    OLD,
    PARTITIONS,
    PLAIN,
    SECOND,
    WITH_MEMBERS,
    Clients,
    Told,
)
from tests.support.nodes.simulated_broker import NODE, SimulatedBroker

PROPERTIES: Final = {
    "log.flush.interval.messages": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.segment.bytes": "600",
    "transaction.state.log.segment.bytes": "600",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "100",
    "offsets.retention.check.interval.ms": "100",
}
LIMIT_S: Final = 120.0
"""In the world's time: much longer than a life takes."""


class CoordinatorLife:
    """See the module. A broker is started on the disk by `run` and by each `check`."""

    def __init__(self) -> None:
        self.killed = False
        self.told = Told()
        self._now_ns = 1_000_000_000

    def run(self, disk: Disk) -> None:
        """Everything that writes to the internal topics, in an order that builds on what was."""
        self._with_broker(disk, Scene.work)

    def check(self, disk: Disk) -> None:
        """What was promised is there, nothing else is, and clients can go on."""
        self._with_broker(disk, Scene.examine)

    def _with_broker(self, disk: Disk, what: "Callable[[Scene], Awaitable[None]]") -> None:
        broker = SimulatedBroker(disk, PROPERTIES, begin_ns=self._now_ns)

        async def main() -> None:
            await what(Scene(self.told, broker))

        try:
            broker.run(main, within_s=LIMIT_S)
        finally:
            self._now_ns = broker.world.now_ns


class Scene(Clients):
    """The clients of one broker, with what they do and what they compare."""

    async def work(self) -> None:
        """See `CoordinatorLife.run`."""
        await self.prepare()
        await self.commit(PLAIN, 0, 1)
        await self.commit(GONE, 0, 1)
        await self.join_classic()
        await self.commit(CLASSIC, 0, 1)
        await self.join_consumer()
        await self.commit(CONSUMER, 0, 1)
        await self.init(FIRST)
        await self.transact(FIRST, CLASSIC, commit=True)
        await self.transact(FIRST, CONSUMER, commit=False)
        await self.commit_with_retention()
        await self.transact(FIRST, CONSUMER, commit=True)
        await self.delete_offset(PLAIN, 1)
        await self.delete_group(GONE)
        await self.be_fenced(SECOND)
        await self.transact(SECOND, PLAIN, commit=True)
        await self.leave_classic()
        await self.join_classic()
        await self.set_transaction_version(1)
        await self.init(OLD)
        await self.transact(OLD, CLASSIC, commit=True)
        await self.transact(OLD, CLASSIC, commit=False)
        await self.leave_consumer()
        await self.commit(GONE, 1)
        await self.expire()
        await self.set_transaction_version(2)
        await self.join_consumer()
        for _ in range(3):
            await self.commit(CLASSIC, 0)
            await self.commit(CONSUMER, 1)
            await self.transact(SECOND, CLASSIC, commit=True)
        await self.delete_group(GONE)
        await self.transact(OLD, PLAIN, commit=True)
        self.compare_with_logs()

    async def examine(self) -> None:
        """See `CoordinatorLife.check`."""
        await self.until(self._loaded)
        await self.prepare()
        await self.until(self._nothing_prepared)
        for machine in self._transactions():
            ongoing = {
                name
                for name, each in machine.transactions.items()
                if each.state is TransactionState.ONGOING
            }
            assert ongoing <= set(self.promises.open), f"{ongoing} are open"
        for name in (FIRST, SECOND, OLD):
            await self.init(name)
        await self.compare()
        await self._membership_holds()
        for group in (CLASSIC, CONSUMER):
            await self.commit(group, 0, 1)
            await self.transact(FIRST, group, commit=True)
        await self.transact(OLD, PLAIN, commit=False)
        await self.compare()

    async def compare(self) -> None:
        """Compare everything that can be read with what was promised."""
        level = self._broker()._transactions.version()
        assert level in self.told.levels, f"transaction.version is {level}"
        self.told.levels = [level]
        numbers = {
            partition: [
                int(each.value or b"") for each in await read_committed(self.cluster, partition)
            ]
            for partition in range(PARTITIONS)
        }
        self.promises.seen(numbers)
        answer = await self.admin.request("list_groups")
        listed = {str(row.group_id) for row in answer.groups}
        assert listed <= set(GROUPS)
        for group in GROUPS:
            offsets = await self.committed(group)
            self.promises.found(group, offsets)
            assert group in listed or not offsets, f"{group} is not listed"
            assert offsets or group in WITH_MEMBERS or group not in listed, f"{group} is listed"
        self.compare_with_logs()

    async def _membership_holds(self) -> None:
        """A member goes on with what it was told; one that was told nothing joins."""
        if self.told.classic is None:
            await self.join_classic()
        else:
            self.classic.member_id, self.classic.generation = self.told.classic
            assert await self.until(self.classic.heartbeat) is ErrorCode.none
        if self.told.consumer is None:
            await self.join_consumer()
        else:
            assert self.consumer is not None
            self.consumer.epoch = self.told.consumer
            self.consumer.owned = ALL
            assert await self.until(self.consumer.heartbeat) is ErrorCode.none
            assert self.consumer.epoch == self.told.consumer

    def _broker(self) -> Broker:
        node = self.broker.node
        assert node is not None
        assert node.broker is not None
        return node.broker

    def _shards(self) -> Iterator[tuple[Shard[Any], Callable[[], Any]]]:
        broker = self._broker()
        for shards in (broker.groups, broker._transactions.shards):
            for shard in shards._shards.values():
                yield shard, shards.make

    def _transactions(self) -> Iterator[TransactionCoordinator]:
        for shard, _ in self._shards():
            if isinstance(shard.machine, TransactionCoordinator):
                yield shard.machine

    async def _loaded(self) -> None:
        """The coordinators of all partitions have loaded."""
        node = self.broker.node
        if node is None or node.broker is None or not node.broker.replicas.active:
            raise Unavailable("STARTING")
        states = [shard.state for shard, _ in self._shards()]
        assert State.FAILED not in states
        if State.LOADING in states:
            raise Unavailable("COORDINATOR_LOAD_IN_PROGRESS")

    async def _nothing_prepared(self) -> None:
        """Every transaction that was decided has ended, though nobody asked."""
        for machine in self._transactions():
            if any(each.state in PREPARED for each in machine.transactions.values()):
                raise Unavailable("CONCURRENT_TRANSACTIONS")

    def compare_with_logs(self) -> None:
        """What the coordinators remember is what their logs say, also after compaction."""
        for shard, make in self._shards():
            check_coordinator(shard.replica, NODE, shard.machine, make)
