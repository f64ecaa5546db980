"""Deletes topics as the old controller does: mark, stop every replica, then remove the znodes.

A topic whose replica is on a broker that is not live waits until the broker is back. Until the end
its name is taken, and brokers do not know it any more.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from nodes.ids import NodeId
from nodes.metadata.image import PartitionKey, TopicImage
from nodes.metadata.records import TOPIC_RESOURCE, RemoveTopicRecord
from nodes.server.zookeeper.announcements import Announcements
from nodes.server.zookeeper.client import ZooKeeper, again, ensure
from nodes.server.zookeeper.commits import IN_FLIGHT, Commits
from nodes.zookeeper import paths
from nodes.zookeeper.requests import MAX_PARTITIONS

log = logging.getLogger("nodes.controller")


@dataclass(slots=True)
class _Deletion:
    topic: TopicImage
    left: set[NodeId]
    """The brokers that have not deleted their replicas yet."""
    done: "asyncio.Future[None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def keys(self, node: NodeId) -> list[PartitionKey]:
        topic = self.topic
        return [
            PartitionKey(topic.topic_id, topic.name, number)
            for number, partition in topic.partitions.items()
            if node in partition.replicas
        ]


class Deletions:
    """The topics that are being deleted. Every method but `wait` is for the controller's events."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        commits: Commits,
        announcements: Announcements,
        on_progress: Callable[[], None],
    ) -> None:
        """`on_progress` is called when `finish` may have something to do."""
        self._zookeeper = zookeeper
        self._commits = commits
        self._announcements = announcements
        self._on_progress = on_progress
        self._running: dict[UUID, _Deletion] = {}

    async def mark(self, topic_ids: Iterable[UUID]) -> None:
        """Write that topics are to be deleted, and begin."""
        for topic_id in topic_ids:
            topic = self._commits.image.topics.get(topic_id)
            if topic is not None:
                await ensure(self._zookeeper, paths.deletion(topic.name))
                self._begin(topic)

    async def resume(self, names: Sequence[str]) -> None:
        """Begin the deletion of marked topics; remove the marks of topics that do not exist."""
        for name in names:
            topic = self._commits.image.topic(name)
            if topic is not None:
                self._begin(topic)
            elif not await self._exists(name):
                await self._commits.remove(paths.deletion(name))

    async def _exists(self, name: str) -> bool:
        found = await again(lambda: self._zookeeper.exists(paths.topic(name)))
        return found is not None

    def _begin(self, topic: TopicImage) -> None:
        if topic.topic_id in self._running:
            return
        left = {node for p in topic.partitions.values() for node in p.replicas}
        deletion = self._running[topic.topic_id] = _Deletion(topic, left)
        self._announcements.hidden.add(topic.topic_id)
        self._announcements.forget_topic(self._commits.image, topic.topic_id)
        log.info("topic %s is being deleted on brokers %s", topic.name, sorted(left))
        for node in sorted(left):
            self._stop(deletion, node)

    def brokers_came(self, nodes: Iterable[NodeId]) -> None:
        """Brokers are back: they delete their replicas now."""
        for node in nodes:
            for deletion in self._running.values():
                if node in deletion.left:
                    self._stop(deletion, node)

    def _stop(self, deletion: _Deletion, node: NodeId) -> None:
        if node not in self._commits.image.brokers:
            return
        keys = deletion.keys(node)
        stopped: list[object] = []
        expected = -(-len(keys) // MAX_PARTITIONS)

        def done(node: NodeId, request: object) -> None:
            stopped.append(request)
            if len(stopped) == expected:
                deletion.left.discard(node)
                self._on_progress()

        self._announcements.delete_replicas(self._commits.image, node, keys, done)

    async def finish(self) -> None:
        """Remove the znodes of topics whose replicas are all gone."""
        for topic_id, deletion in list(self._running.items()):
            if not deletion.left:
                await self._remove(deletion.topic)
                self._commits.apply([RemoveTopicRecord(topic_id=topic_id)])
                self._announcements.hidden.discard(topic_id)
                del self._running[topic_id]
                log.info("topic %s is deleted", deletion.topic.name)
                if not deletion.done.done():
                    deletion.done.set_result(None)

    async def _remove(self, topic: TopicImage) -> None:
        numbers = list(topic.partitions)
        for path in (paths.state, paths.partition):
            for start in range(0, len(numbers), IN_FLIGHT):
                chunk = numbers[start : start + IN_FLIGHT]
                await asyncio.gather(*(self._commits.remove(path(topic.name, n)) for n in chunk))
        for last in (
            paths.partitions(topic.name),
            paths.topic(topic.name),
            paths.config(TOPIC_RESOURCE, topic.name),
            paths.deletion(topic.name),
        ):
            await self._commits.remove(last)

    async def wait(self, topic_ids: Iterable[UUID]) -> None:
        """Wait until these topics are deleted."""
        waiting = [self._running[each].done for each in topic_ids if each in self._running]
        if waiting:
            await asyncio.wait(waiting)

    def close(self) -> None:
        """The controller resigns; the next one goes on."""
        for deletion in self._running.values():
            deletion.done.cancel()
