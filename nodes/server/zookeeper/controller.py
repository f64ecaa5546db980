"""The old controller: a queue of events, handled one after another.

It begins with everything that ZooKeeper has (`take_over`), so a failover costs a read of every
partition. From then on watches report what changed, and every handler reads again before it
decides: an event says where to look, never what is there. Administrative operations are events,
too. `commits` writes and tells the brokers.

The controller ends when it is deposed: its session expired, /controller names another broker, or a
write finds a newer controller epoch.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from nodes.controller import elections
from nodes.controller.elections import PolicyOf
from nodes.controller.reassignments import Reassignment, alter_reassignments
from nodes.controller.settings import ControlSettings
from nodes.controller.situation import ControllerResult, ControllerState
from nodes.ids import BrokerEpoch, Epoch, NodeId, TopicPartition
from nodes.metadata.broker import BrokerImage
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, PartitionKey
from nodes.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from nodes.server.zookeeper.announcements import Announcements
from nodes.server.zookeeper.broker_channels import BrokerChannels
from nodes.server.zookeeper.client import ZooKeeper, again, ensure
from nodes.server.zookeeper.commits import Commits, Deposed
from nodes.server.zookeeper.deletions import Deletions
from nodes.server.zookeeper.reading import ClusterReader
from nodes.zookeeper import decisions, paths, requests, znodes
from nodes.zookeeper.broker_view import in_shutdown, registration
from nodes.zookeeper.operations import SessionExpired

log = logging.getLogger("nodes.controller")

R = TypeVar("R")
Event = Callable[[], Awaitable[None]]

MAX_PREFERRED_ELECTIONS: Final = 1000


class ZooKeeperController:
    """One term of this node as the controller. Call `start` once; `close` when it is over."""

    def __init__(
        self,
        node_id: NodeId,
        zookeeper: ZooKeeper,
        channels: BrokerChannels,
        settings: ControlSettings,
        *,
        epoch: int,
        epoch_version: int,
        batched: bool,
        configs: Callable[[], Sequence[MetadataRecord]],
        rng: random.Random,
        on_deposed: Callable[[], None],
    ) -> None:
        """`epoch_version` is the version of /controller_epoch. `configs` returns the records of
        every configuration in ZooKeeper.
        """
        self.epoch = epoch
        self._zookeeper = zookeeper
        self._reader = ClusterReader(zookeeper)
        self._channels = channels
        self._settings = settings
        self._configs = configs
        self._rng = rng
        self._on_deposed = on_deposed
        sender = requests.Sender(node_id=node_id, epoch=epoch)
        self._announcements = Announcements(channels, sender)
        self._commits = Commits(
            zookeeper, self._announcements, epoch, epoch_version, batched=batched
        )
        self._deletions = Deletions(
            zookeeper,
            self._commits,
            self._announcements,
            lambda: self._when(self._finish_deletions),
        )
        self._unborn: list[tuple[str, znodes.TopicZnode]] = []
        """Topics with partitions that never had a leader, because no replica was live."""
        self._waiting: dict[Event, None] = {}
        """The events that wait to be handled. One that waits already is not added again."""
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._answers: dict[asyncio.Future[Any], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    # -- life ----------------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:
        """The cluster as this controller has read and written it."""
        return self._commits.image

    @property
    def state(self) -> ControllerState:
        """The state on which administrative operations decide."""
        return ControllerState(image=self.image, settings=self._settings, rng=self._rng)

    @property
    def _policy(self) -> PolicyOf:
        return self.state.policy

    def start(self) -> None:
        """Take over: read everything, tell the brokers, and handle events from then on."""
        self._when(self._take_over)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """This term is over. Requests that wait get NOT_CONTROLLER."""
        if self._task is not None:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._channels.close()
        self._deletions.close()
        for answer in self._answers:
            if not answer.done():
                answer.set_exception(_not_controller())
        self._answers.clear()

    def _on(self, event: Event) -> Callable[[], None]:
        """A watch that makes an event."""
        return lambda: self._when(event)

    def _when(self, event: Event) -> None:
        """Handle an event after those that wait."""
        self._waiting[event] = None
        self._work.set()

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            if not self._waiting:
                self._work.clear()
                continue
            event = next(iter(self._waiting))
            del self._waiting[event]
            try:
                await event()
            except (Deposed, SessionExpired) as error:
                log.info("no longer the controller of epoch %d: %s", self.epoch, error)
                self._on_deposed()
                return
            except Exception:
                # A controller that handles nothing more makes partitions unavailable for ever.
                log.exception("an event of the controller failed")

    # -- taking over ---------------------------------------------------------------------------

    async def _take_over(self) -> None:
        commits = self._commits
        commits.image = replace(
            commits.image, epoch=Epoch(self.epoch), features=decisions.levels(self._settings)
        )
        commits.apply(self._configs())
        brokers = await self._reader.brokers(self._on(self._brokers_changed))
        commits.apply([_registration(broker) for broker in brokers.values()])
        unborn = await self._take_topics(
            await self._reader.children(paths.TOPICS, self._on(self._topics_changed))
        )
        image = self.image
        log.info(
            "controller of epoch %d: %d brokers, %d topics, %d partitions",
            self.epoch,
            len(image.brokers),
            len(image.topics),
            sum(len(topic.partitions) for topic in image.topics.values()),
        )
        self._channels.update(image.brokers)
        marked = await self._reader.children(paths.DELETE_TOPICS, self._on(self._deletions_changed))
        self._announcements.hidden.update(
            topic.topic_id for name in marked if (topic := image.topic(name)) is not None
        )
        self._announcements.introduce(image, image.brokers)
        await self._deletions.resume(marked)
        self._unborn = unborn
        await self._mend()
        for event in (self._isr_changed, self._reassignments_changed, self._finish_deletions):
            self._when(event)
        self._rebalance_later()

    async def _mend(self) -> None:
        """Whatever partitions need after brokers came or went."""
        commits = self._commits
        await commits.commit(lambda: decisions.without(self.image, self._dead(), self._policy))
        await commits.commit(lambda: decisions.elect_leaderless(self.image, self._policy))
        await self._bear()
        await commits.commit(lambda: decisions.finished_reassignments(self.image, self._policy))

    def _dead(self) -> list[NodeId]:
        """The brokers that lead or are in an ISR, and are not live."""
        nodes: dict[NodeId, None] = {}
        for _, partition in self.image.partitions():
            for node in (partition.leader, *partition.isr):
                if node >= 0 and node not in self.image.brokers:
                    nodes[node] = None
        return list(nodes)

    # -- topics --------------------------------------------------------------------------------

    async def _topics_changed(self) -> None:
        names = await self._reader.children(paths.TOPICS, self._on(self._topics_changed))
        new = [name for name in names if name not in self.image.topic_ids]
        self._unborn += await self._take_topics(new)
        self._announcements.changed(self.image, self.image, self._keys_of(new))
        await self._bear()

    async def _take_topics(self, names: Sequence[str]) -> list[tuple[str, znodes.TopicZnode]]:
        """Take topics and the states of their partitions; return those that lack some states."""
        topics = await self._reader.topics(names)
        states = await self._commits.states(
            [
                PartitionKey(znode.topic_id, name, number)
                for name, znode in topics.items()
                for number in sorted(znode.partitions)
            ]
        )
        records: list[MetadataRecord] = [
            TopicRecord(name=name, topic_id=znode.topic_id) for name, znode in topics.items()
        ]
        records += [
            decisions.known_partition(topics[key.topic], key.partition, state, stat.version)
            for key, (state, stat) in states.items()
        ]
        self._commits.apply(records)
        known = frozenset(states)
        return [
            (name, znode)
            for name, znode in topics.items()
            if any(PartitionKey(znode.topic_id, name, n) not in known for n in znode.partitions)
        ]

    def _keys_of(self, names: Sequence[str]) -> list[PartitionKey]:
        return [
            PartitionKey(topic.topic_id, name, number)
            for name in names
            if (topic := self.image.topic(name)) is not None
            for number in topic.partitions
        ]

    async def _bear(self) -> None:
        """Give the first leaders to partitions that never had one and have a live replica now."""
        for name, _ in self._unborn:
            await ensure(self._zookeeper, paths.partitions(name))

        def decide() -> list[PartitionRecord]:
            return [
                record
                for _, znode in self._unborn
                if (topic := self.image.topics.get(znode.topic_id)) is not None
                for record in decisions.new_partitions(self.image, znode)
                if record.partition_id not in topic.partitions
            ]

        await self._commits.commit(decide)
        self._unborn = [
            (name, znode)
            for name, znode in self._unborn
            if (topic := self.image.topics.get(znode.topic_id)) is not None
            and any(number not in topic.partitions for number in znode.partitions)
        ]

    async def _deletions_changed(self) -> None:
        names = await self._reader.children(paths.DELETE_TOPICS, self._on(self._deletions_changed))
        await self._deletions.resume(names)
        await self._deletions.finish()

    async def _finish_deletions(self) -> None:
        await self._deletions.finish()

    # -- brokers -------------------------------------------------------------------------------

    async def _brokers_changed(self) -> None:
        found = await self._reader.brokers(self._on(self._brokers_changed))
        changes = decisions.broker_changes(self.image, found)
        if not changes.gone and not changes.came:
            return
        gone = [broker.node_id for broker in changes.gone]
        came = [broker.node_id for broker in changes.came]
        log.info("brokers gone: %s, come: %s", gone, came)
        self._commits.apply(
            [
                UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.epoch)
                for broker in changes.gone
            ]
        )
        self._channels.update(self.image.brokers)
        if gone:
            self._announcements.live_brokers(self.image, self.image.brokers)
            await self._commits.commit(lambda: decisions.without(self.image, gone, self._policy))
        others = list(self.image.brokers)
        self._commits.apply([_registration(broker) for broker in changes.came])
        self._channels.update(self.image.brokers)
        if came:
            self._announcements.live_brokers(self.image, others)
            self._announcements.introduce(self.image, came)
            await self._mend()
            self._deletions.brokers_came(came)

    async def controlled_shutdown(
        self, node: NodeId, broker_epoch: BrokerEpoch
    ) -> list[TopicPartition]:
        """Move a broker's leaderships away; return the partitions that it still leads.

        Raises ControlError: STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE, NOT_CONTROLLER.
        """

        async def shut_down() -> list[TopicPartition]:
            broker = self.image.brokers.get(node)
            if broker is None:
                raise ControlError(ErrorCode.broker_not_available, f"broker {node} is not live")
            if broker_epoch < broker.epoch:
                raise ControlError(
                    ErrorCode.stale_broker_epoch,
                    f"broker {node} has epoch {broker.epoch}, the request {broker_epoch}",
                )
            self._commits.apply([in_shutdown(broker)])
            await self._commits.commit(
                lambda: decisions.shut_down(self.image, node, self._policy)[0]
            )
            return decisions.shut_down(self.image, node, self._policy)[1]

        return await self._answer(shut_down)

    # -- leaders' changes ----------------------------------------------------------------------

    async def _isr_changed(self) -> None:
        """Leaders have changed ISRs. The watch is set before the states are read: a change after
        the read is reported again."""
        names = await self._reader.children(paths.ISR_CHANGES, self._on(self._isr_changed))
        if not names:
            return
        notices = [f"{paths.ISR_CHANGES}/{name}" for name in names]
        changed: dict[TopicPartition, None] = {}
        for result in await self._reader.read_all(notices):
            if result is not None:
                changed.update(dict.fromkeys(znodes.read_isr_changes(result[0])))
        keys = [
            PartitionKey(topic.topic_id, name, number)
            for name, number in changed
            if (topic := self.image.topic(name)) is not None
        ]
        before, newer = self.image, await self._commits.adopt(keys)
        self._announcements.changed(before, self.image, newer, roles=False)
        await self._commits.commit(
            lambda: decisions.finished_reassignments(self.image, self._policy, keys)
        )
        await asyncio.gather(*(self._commits.remove(path) for path in notices))

    async def _reassignments_changed(self) -> None:
        """Reassignments as tools before KIP-455 ask for them."""
        path = paths.REASSIGN_PARTITIONS
        await again(lambda: self._zookeeper.exists(path, self._on(self._reassignments_changed)))
        found = await self._reader.read(path)
        if found is None:
            return
        wanted = [
            Reassignment(topic=each.topic, partition=each.partition, replicas=replicas)
            for each, replicas in znodes.read_reassignments(found[0]).items()
        ]

        def decide() -> list[PartitionChangeRecord]:
            records = alter_reassignments(self.state, wanted).records
            return [each for each in records if isinstance(each, PartitionChangeRecord)]

        await self._commits.commit(decide)
        await self._commits.remove(path)

    # -- administration ------------------------------------------------------------------------

    async def decide(self, operation: Callable[[], ControllerResult[R]]) -> R:
        """Run one operation, and return its response when it is carried out. Raises ControlError.

        A deletion is carried out when every replica is gone.
        """

        async def run() -> tuple[R, Sequence[Any]]:
            result = operation()
            first: list[ControllerResult[R]] = [result]

            def records() -> Sequence[MetadataRecord]:
                now = first.pop() if first else operation()
                return [_plain(record) for record in now.records]

            plan = await self._commits.commit(records)
            await self._deletions.mark(plan.deletions)
            await self._deletions.finish()
            return result.response, plan.deletions

        response, deleted = await self._answer(run)
        await self._deletions.wait(deleted)
        return response

    async def _answer(self, work: Callable[[], Awaitable[R]]) -> R:
        """Do `work` as an event; return its result. Raises ControlError."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._answers[answer] = None

        async def event() -> None:
            try:
                result = await work()
            except ControlError as error:
                if not answer.done():
                    answer.set_exception(error.kept())
                return
            except (Deposed, SessionExpired):
                raise  # the end of the term answers
            except Exception:
                if not answer.done():
                    refusal = ControlError(ErrorCode.unknown_server_error, "the controller failed")
                    answer.set_exception(refusal)
                raise
            if not answer.done():
                answer.set_result(result)

        self._when(event)
        try:
            return await answer
        finally:
            self._answers.pop(answer, None)

    def configs_changed(self, records: Sequence[MetadataRecord]) -> None:
        """Configurations have changed in ZooKeeper: an unclean election may be allowed now."""

        async def event() -> None:
            self._commits.apply(records)
            await self._commits.commit(lambda: decisions.elect_leaderless(self.image, self._policy))

        self._when(event)

    # -- preferred leaders ---------------------------------------------------------------------

    def _rebalance_later(self) -> None:
        if self._settings.auto_leader_rebalance:
            delay_s = self._settings.leader_imbalance_check_interval_ms / 1000
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(delay_s, self._when, self._rebalance)

    async def _rebalance(self) -> None:
        await self._commits.commit(
            lambda: elections.rebalance(
                self.image,
                self._policy,
                limit=MAX_PREFERRED_ELECTIONS,
                imbalance_percentage=self._settings.leader_imbalance_percentage,
            )
        )
        self._rebalance_later()


def _registration(broker: BrokerImage) -> MetadataRecord:
    return registration(broker.node_id, broker.epoch, broker.endpoints, broker.rack)


def _plain(record: MetadataRecord) -> MetadataRecord:
    if isinstance(record, PartitionChangeRecord):
        kept = decisions.without_recovery(record)
        assert kept is not None
        return kept
    return record


def _not_controller() -> ControlError:
    return ControlError(ErrorCode.not_controller, "this node is not the active controller")
