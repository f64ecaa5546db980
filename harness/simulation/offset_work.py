"""Clients that keep offsets in a group without members, each in a group of its own.

They commit offsets, with and without a transaction, delete single offsets or the group, and read
stable offsets. A step that gets no answer may be done later, so the client goes on with another
group and another transactional id then.

They are judged by `harness.simulation.invariants.kept_offsets`, and nothing of them is recorded.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.kept_offsets import KeptOffsets
from harness.simulation.transaction_work import TIMEOUT_S, until_answered
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.coordinator import GROUP, Coordinator, Unavailable
from harness.workloads.clients.own.group_member import NOBODY, GroupOffsets, GroupSettings
from harness.workloads.clients.own.transactions import Fenced, Refused, TransactionalProducer
from nodes.ids import TopicPartition

MAX_PARTITIONS: Final = 2
PAUSE_S: Final = (0.0, 0.2)
OPEN_S: Final = (0.1, 2.0)
OPEN_SHARE: Final = 0.3
"""Some transactions stay open for a while."""
READS: Final = 20
RETRY_S: Final = 0.05
STEPS: Final = (5, 40)
"""The steps in one group."""
NO_MEMBER: Final = ("", -1)
"""The member id and the generation of a client that assigns its partitions itself."""


class OffsetKeeper:
    """One client of a topic with so many partitions. The ids of its groups begin with `name`, and
    each is a transactional id, too. `may_have_expired` tells whether offsets may be removed that
    are at most so many seconds old."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        *,
        partitions: int,
        may_have_expired: Callable[[float], bool],
        deletions_stay: bool,
        rng: random.Random,
        stop: asyncio.Event,
        report: Callable[[InvariantBroken], None],
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._partitions = range(min(partitions, MAX_PARTITIONS))
        self._may_have_expired = may_have_expired
        self._deletions_stay = deletions_stay
        self._rng = rng
        self._stop = stop
        self._report = report
        self._groups = 0
        self._next_offset = 0

    async def run(self) -> None:
        """Keep offsets in one group after the other until the stop."""
        while not self._stop.is_set():
            self._groups += 1
            name = f"{self._name}-{self._groups}"
            group = _Group(self._cluster, self._kept(name))
            producer = TransactionalProducer(self._cluster, name, TIMEOUT_S, second=True)
            try:
                await until_answered(producer.init, self._stop)
                for _ in range(self._rng.randint(*STEPS)):
                    if self._stop.is_set():
                        return
                    await self._step(group, producer)
                    await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            except InvariantBroken as broken:
                self._report(broken)
            except (Fenced, Refused, Unavailable):
                await asyncio.sleep(self._rng.uniform(*PAUSE_S))

    def _kept(self, group: str) -> KeptOffsets:
        """Return what is known of a new group, whose offsets are younger than it."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        return KeptOffsets(
            group,
            may_have_expired=lambda: self._may_have_expired(loop.time() - begun_s),
            deletions_stay=self._deletions_stay,
        )

    async def _step(self, group: "_Group", producer: TransactionalProducer) -> None:
        if self._rng.random() < 0.5:
            await self._transaction(group, producer)
        else:
            await self._change(group)
        await self._read(group, self._rng.choice(self._partitions))

    async def _read(self, group: "_Group", partition: int) -> None:
        """Read an offset. Raises Unavailable if there is none, or no stable one, for long."""
        for left in reversed(range(READS)):
            try:
                await group.read(partition)
                return
            except Unavailable:
                if not left:
                    raise
            await asyncio.sleep(RETRY_S)

    async def _transaction(self, group: "_Group", producer: TransactionalProducer) -> None:
        """Commit an offset in a transaction; other steps may come in between."""
        rng = self._rng
        await group.send(producer, rng.choice(self._partitions), self._offset())
        if rng.random() < 0.5:
            await self._change(group)
        if rng.random() < 0.5:
            with suppress(Unavailable):  # an offset that is not stable
                await group.read(rng.choice(self._partitions))
        if rng.random() < OPEN_SHARE:
            await asyncio.sleep(rng.uniform(*OPEN_S))
        commit = rng.random() < 0.75
        await until_answered(partial(producer.end, commit=commit), self._stop)
        group.kept.ended(commit=commit)

    async def _change(self, group: "_Group") -> None:
        """Commit an offset without a transaction, or delete what is there."""
        rng, there = self._rng, sorted(group.kept.partitions)
        if there and rng.random() < 0.25:
            await group.delete()
        elif there and rng.random() < 0.25:
            await group.delete_offset(rng.choice(there))
        else:
            await group.commit(rng.choice(self._partitions), self._offset())

    def _offset(self) -> int:
        """Return an offset that was not committed before."""
        self._next_offset += 1
        return self._next_offset


class _Group:
    """The requests about one group. Each raises Unavailable, and those that change something are
    made once."""

    def __init__(self, cluster: Cluster, kept: KeptOffsets) -> None:
        self.kept = kept
        self._topic = cluster.topic
        self._coordinator = Coordinator(cluster, kept.group, GROUP)
        settings = GroupSettings(group=kept.group, partitions={}, session_s=0, rebalance_s=0)
        self._offsets = GroupOffsets(settings, self._coordinator)

    async def commit(self, partition: int, offset: int) -> None:
        """Commit an offset. Raises Refused."""
        place = TopicPartition(self._topic, partition)
        results = await self._offsets.commit({place: offset}, *NO_MEMBER)
        _check(results[place])
        self.kept.committed(partition, offset)

    async def send(self, producer: TransactionalProducer, partition: int, offset: int) -> None:
        """Commit an offset in the producer's transaction. Raises Fenced, Refused."""
        name, place = self.kept.group, TopicPartition(self._topic, partition)
        await producer.commit_offsets(self._coordinator, name, {place: offset}, **NOBODY)
        self.kept.sent(partition, offset)

    async def read(self, partition: int) -> None:
        """Read an offset, if it is stable. Raises InvariantBroken.

        As in Kafka, a coordinator that was replaced and does not know it may answer, too.
        """
        place = TopicPartition(self._topic, partition)
        found = await self._offsets.committed(frozenset({place}))
        judged = self.kept.decides(partition, found[place])
        if not judged or await self._coordinator.is_agreed_on():
            self.kept.read(partition, found[place])

    async def delete_offset(self, partition: int) -> None:
        """Delete an offset. Raises Refused."""
        rows = [{"name": self._topic, "partitions": [{"partition_index": partition}]}]
        name = self.kept.group
        answer = await self._coordinator.ask("offset_delete", group_id=name, topics=rows)
        _check(self._coordinator.check(answer.error_code))
        _check(self._coordinator.check(answer.topics[0].partitions[0].error_code))
        self.kept.deleted(partition)

    async def delete(self) -> None:
        """Delete the group. Raises Refused."""
        answer = await self._coordinator.ask("delete_groups", groups_names=[self.kept.group])
        _check(self._coordinator.check(answer.results[0].error_code))
        self.kept.deleted(*self.kept.partitions)


def _check(code: ErrorCode) -> None:
    """Raise Refused for an error: nothing was done, and nothing is known of the group then."""
    if code is not ErrorCode.none:
        raise Refused(code.name.upper())
