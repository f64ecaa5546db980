"""Carries out the controller's records: writes their znodes, then tells the brokers.

Every write is conditional on the controller's own epoch, so a deposed controller writes nothing
more (Deposed). A write that fails for another reason was decided on an old state: the partition is
read again, and the decision is made again.

Batched, all writes of a decision are begun together, and each broker then gets requests with all of
its partitions. Otherwise each partition is written and sent before the next one is written: one
round trip and one request for each.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from nodes.ids import Offset
from nodes.metadata.image import ClusterImage, Delta, PartitionKey
from nodes.metadata.records import MetadataRecord, PartitionChangeRecord, PartitionRecord
from nodes.server.zookeeper.announcements import Announcements
from nodes.server.zookeeper.client import RETRY_S, ZooKeeper, again, gathered
from nodes.zookeeper import paths, writes, znodes
from nodes.zookeeper.broker_view import partition_of
from nodes.zookeeper.decisions import known_partition
from nodes.zookeeper.operations import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Stat,
    ZooKeeperError,
)
from nodes.zookeeper.writes import Plan, Write

log = logging.getLogger("nodes.controller")

MAX_ROUNDS: Final = 10
"""How often a decision is made again before its partitions are left to the next event."""
IN_FLIGHT: Final = 500
"""How many operations are begun together."""

MAX_NOTICES: Final = 1000
"""How many notices of changed configurations are kept. Kafka keeps those of 15 minutes."""
EXPECTED: Final = (BadVersion, NoNode, NodeExists, ConnectionLost)
"""How a write may fail without an end of this controller's term."""

Decide = Callable[[], Sequence[MetadataRecord]]


class Deposed(Exception):
    """There is a newer controller."""


class Commits:
    """See the module. `image` is the cluster as this controller has read and written it."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        announcements: Announcements,
        epoch: int,
        epoch_version: int,
        *,
        batched: bool,
    ) -> None:
        self._zookeeper = zookeeper
        self._announcements = announcements
        self._epoch = epoch
        self._guard = Check(paths.CONTROLLER_EPOCH, epoch_version)
        self._batched = batched
        self.image = ClusterImage()

    def apply(self, records: Sequence[MetadataRecord]) -> Delta:
        """Take records into the image, without a write."""
        offset = Offset(self.image.offset + 1)
        self.image, delta = self.image.apply(records, offset, self.image.epoch)
        return delta

    async def commit(self, decide: Decide) -> Plan:
        """Decide and carry out, again as long as something has changed meanwhile.

        Return the first plan. Raises Deposed, SessionExpired.
        """
        plan = first = self._plan(decide)
        for _ in range(MAX_ROUNDS):
            conflicts = await self._carry_out(plan)
            if not conflicts:
                return first
            await self._read_again(conflicts)
            plan = self._plan(decide)
        log.warning("%d partitions change faster than they can be read", len(conflicts))
        return first

    def _plan(self, decide: Decide) -> Plan:
        records = [
            record
            for record in decide()
            if not isinstance(record, PartitionRecord | PartitionChangeRecord)
            or record.topic_id not in self._announcements.hidden
        ]
        return writes.plan(self.image, records, self._epoch)

    async def _carry_out(self, plan: Plan) -> list[Write]:
        """Do the writes and tell the brokers; return the writes that were not done."""
        for config in plan.configs:
            await self._write_config(config)
        before = self.image
        written: list[PartitionKey] = []
        conflicts: list[Write] = []
        for group in self._groups(plan.writes):
            failed = await self._write(group)
            done = [write for write in group if write not in failed]
            self.apply([record for write in done for record in write.records])
            keys = [write.partition for write in done if write.partition is not None]
            conflicts += failed
            if self._batched:
                written += keys
            else:
                self._announcements.changed(before, self.image, keys)
                before = self.image
            if failed and failed[0].partition is None:
                break  # a topic could not be written, so its partitions cannot either
        self._announcements.changed(before, self.image, written)
        return conflicts

    def _groups(self, found: Iterable[Write]) -> Iterator[list[Write]]:
        size = IN_FLIGHT if self._batched else 1
        group: list[Write] = []
        for write in found:
            if group and (write.alone or len(group) >= size):
                yield group
                group = []
            group.append(write)
            if write.alone:
                yield group
                group = []
        if group:
            yield group

    async def _write(self, group: Sequence[Write]) -> list[Write]:
        """Begin all writes of a group together; return those that were decided on an old state."""
        operations = [self._zookeeper.multi((self._guard, *w.operations)) for w in group]
        failed = []
        for write, result in zip(group, await gathered(operations, EXPECTED), strict=True):
            if not await self._is_done(write, result):
                failed.append(write)
        return failed

    async def _is_done(self, write: Write, result: object) -> bool:
        """Whether a write is made; one whose answer was lost is made again. Raises Deposed."""
        while isinstance(result, ConnectionLost):
            await asyncio.sleep(RETRY_S)
            attempt = self._zookeeper.multi((self._guard, *write.operations))
            (result,) = await gathered([attempt], EXPECTED)
        if isinstance(result, BadVersion | NoNode) and result.operation == 0:
            raise self._deposed()
        return not isinstance(result, ZooKeeperError) or await self._was_done(write)

    async def _was_done(self, write: Write) -> bool:
        """Whether a refused creation of a topic was made by an attempt whose answer was lost."""
        first = write.operations[0]
        if write.partition is not None or not isinstance(first, Create):
            return False
        found = await self._read(first.path)
        return found is not None and found[0] == first.data

    async def _write_config(self, change: writes.ConfigWrite) -> None:
        path, data = writes.config_path(change.resource), znodes.config(change.values)
        try:
            await again(lambda: self._zookeeper.set(path, data))
        except NoNode:
            try:
                await again(lambda: self._zookeeper.create(path, data))
            except NodeExists:
                await again(lambda: self._zookeeper.set(path, data))
        self.apply(change.records)
        notice = znodes.config_change(writes.config_entity(change.resource))
        prefix = f"{paths.CONFIG_CHANGES}/config_change_"
        await again(lambda: self._zookeeper.create(prefix, notice, sequence=True))
        names = await again(lambda: self._zookeeper.children(paths.CONFIG_CHANGES))
        for name in names[:-MAX_NOTICES]:
            await self.remove(f"{paths.CONFIG_CHANGES}/{name}")

    async def remove(self, path: str) -> None:
        """Delete a znode that may be gone already. Raises Deposed."""
        try:
            await again(lambda: self._zookeeper.multi((self._guard, Delete(path))))
        except (BadVersion, NoNode) as error:
            if error.operation == 0:
                raise self._deposed() from error

    def _deposed(self) -> Deposed:
        return Deposed(f"controller epoch {self._epoch} is over")

    # -- reading -------------------------------------------------------------------------------

    async def _read_again(self, conflicts: Iterable[Write]) -> None:
        before = self.image
        keys = [write.partition for write in conflicts if write.partition is not None]
        newer = await self.adopt(keys, assignments=True)
        self._announcements.changed(before, self.image, newer)

    async def adopt(
        self, keys: Sequence[PartitionKey], *, assignments: bool = False
    ) -> list[PartitionKey]:
        """Read the states of partitions, and take those that are newer; return these.

        `assignments`: also read which replicas they have, which only a controller changes.
        """
        topics: dict[str, znodes.TopicZnode] = {}
        for key in keys:
            if key.topic_id in self.image.topics and key.topic not in topics:
                znode = await self._assignment(key, fresh=assignments)
                if znode is not None and znode.topic_id == key.topic_id:
                    topics[key.topic] = znode
        known = [k for k in keys if k.topic in topics and k.partition in topics[k.topic].partitions]
        records = [
            known_partition(topics[key.topic], key.partition, state, stat.version)
            for key, (state, stat) in (await self.states(known)).items()
            if self._is_newer(key, stat)
        ]
        self.apply(records)
        names = {topic.topic_id: name for name, topic in topics.items()}
        return [PartitionKey(r.topic_id, names[r.topic_id], r.partition_id) for r in records]

    def _is_newer(self, key: PartitionKey, stat: Stat) -> bool:
        known = partition_of(self.image, key.topic_id, key.partition)
        return known is None or known.partition_epoch < stat.version

    async def _assignment(self, key: PartitionKey, *, fresh: bool) -> znodes.TopicZnode | None:
        if not fresh:
            return writes.topic_znode(self.image.topics[key.topic_id])
        found = await self._read(paths.topic(key.topic))
        return None if found is None else znodes.read_topic(found[0])

    async def states(
        self, keys: Sequence[PartitionKey]
    ) -> dict[PartitionKey, tuple[znodes.StateZnode, Stat]]:
        """The states of those partitions that have one."""
        found: dict[PartitionKey, tuple[znodes.StateZnode, Stat]] = {}
        size = IN_FLIGHT if self._batched else 1
        for start in range(0, len(keys), size):
            chunk = keys[start : start + size]
            reads = [self._read(paths.state(key.topic, key.partition)) for key in chunk]
            for key, result in zip(chunk, await asyncio.gather(*reads), strict=True):
                if result is not None:
                    found[key] = (znodes.read_state(result[0]), result[1])
        return found

    async def _read(self, path: str) -> tuple[bytes, Stat] | None:
        try:
            return await again(lambda: self._zookeeper.get(path))
        except NoNode:
            return None
