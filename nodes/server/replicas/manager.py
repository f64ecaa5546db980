"""The replicas that this node hosts, kept as the metadata log says.

Nothing is applied before the broker has caught up with its own registration: replaying old history
would make it lead in epochs long past. Then the logs found on the disk are matched with the image:
those of topics that are gone, or of replicas moved elsewhere meanwhile, are removed. From then on
every change of the image becomes roles, fetchers and ISR bookkeeping here, in the order of the
metadata log, and a bounded number in each turn of the loop (`backlog`).

A partition is told apart by its topic's id: a topic that was deleted and made again under the same
name begins with empty logs.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig
from nodes.ids import NO_NODE, NO_OFFSET, NodeId, Offset, TopicPartition
from nodes.metadata.image import ClusterImage, Delta, PartitionImage, PartitionKey
from nodes.metadata.records import TOPIC_RESOURCE
from nodes.replication.partition import Assignment, PartitionState, Role
from nodes.server.replicas.backlog import Backlog
from nodes.server.replicas.log_directory import HostedLog, LogDirectory
from nodes.server.replicas.replica import Replica
from nodes.server.replicas.topic_settings import TopicSettings, topic_settings
from nodes.storage.disk import Disk

log = logging.getLogger("nodes.replicas")

SAID_ONE_BY_ONE = 10
"""So many changes of one metadata batch get a line each; more are summed up."""


class FetchPlan(Protocol):
    """Who fetches: told of every change, once for each batch of the metadata log."""

    def follow(self, changes: Mapping[TopicPartition, NodeId | None]) -> None:
        """Whom to fetch these partitions from now on, None: not at all. The others stay as before.

        Names every partition whose leader or leader epoch changed, and those no longer hosted here.
        """
        ...


class ReplicaManager:
    """Assigns roles, finds replicas for requests."""

    def __init__(
        self, config: NodeConfig, disk: Disk, now_ms: Callable[[], float], *, clean_start: bool
    ) -> None:
        self._config = config
        self._now_ms = now_ms
        self._replicas: dict[TopicPartition, Replica] = {}
        self._settings: dict[str, TopicSettings] = {}
        self._fetch_plan: FetchPlan | None = None
        self._plan: dict[TopicPartition, NodeId | None] = {}
        self._news: list[Replica] = []
        self._backlog = Backlog(now_ms, self._hand_over_plan)
        self._following = False
        self.logs = LogDirectory(disk, clean=clean_start)
        self.image = ClusterImage()
        self.applied_offset = NO_OFFSET
        """The metadata offset up to which the roles are taken up here; the image may be ahead."""
        self._active = asyncio.Event()
        """Whether the roles of the image in which this broker found itself have been taken up."""

    # -- finding -------------------------------------------------------------------------------

    def find(self, partition: TopicPartition) -> Replica | None:
        """The local replica of `partition`, whatever its role."""
        return self._replicas.get(partition)

    def all(self) -> Iterable[Replica]:
        """Every local replica, in order of creation."""
        return list(self._replicas.values())

    def why_not_here(self, partition: TopicPartition) -> ErrorCode:
        """The error for a request to a partition without a local replica."""
        known = self.image.partition(partition.topic, partition.partition) is not None
        if known:
            return ErrorCode.not_leader_or_follower
        return ErrorCode.unknown_topic_or_partition

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """The name of the topic with this id."""
        topic = None if topic_id is None else self.image.topics.get(topic_id)
        return None if topic is None else topic.name

    def eligible(self, broker: NodeId) -> bool:
        """Whether the metadata knows `broker` as unfenced and not shutting down (KIP-841)."""
        return self.image.active(broker)

    # -- following the metadata log ------------------------------------------------------------

    def fetch_with(self, plan: FetchPlan) -> None:
        """Tell `plan` what to fetch from now on."""
        self._fetch_plan = plan

    async def recover(self) -> None:
        """Open every log on the disk, before the broker registers. Raises OSError."""
        await self.logs.recover(self._settings_of("").log)

    def follow(self, image: ClusterImage, delta: Delta) -> None:
        """Take over a newer image; before `activate` it is only remembered."""
        self.image = image
        if not self._following:
            return
        self._follow_configs(delta)
        for key, change in delta.partitions.items():
            self._backlog.add(partial(self._update, key, change.after))
        self._backlog.add(partial(self._applied, image.offset))
        self._backlog.run()

    @property
    def active(self) -> bool:
        """Whether this broker has taken up the roles that its registration found it."""
        return self._active.is_set()

    async def taken_up(self) -> None:
        """Wait until it has."""
        await self._active.wait()

    def activate(self) -> None:
        """The image holds this broker's registration: take up the roles that it gives; once."""
        if self._following:
            return
        self._following = True
        self._settings.clear()
        for hosted in self.logs.hosted():
            self._backlog.add(partial(self._match, hosted))
        for key, image in self.image.partitions():
            if self._config.node_id in image.replicas:
                self._backlog.add(partial(self._update, key, image))
        self._backlog.add(partial(self._applied, self.image.offset))
        self._backlog.run()

    def _applied(self, offset: Offset) -> None:
        self.applied_offset = offset
        if not self.active:
            log.info("%d replicas in their roles at metadata offset %d", len(self._news), offset)
            self._active.set()
        elif len(self._news) <= SAID_ONE_BY_ONE:
            for replica in self._news:
                _say(replica)
        else:
            roles = [replica.state.role for replica in self._news]
            counts = ", ".join(f"{roles.count(role)} {role.value}" for role in Role)
            log.info("%d replicas changed roles: %s", len(roles), counts)
        self._news.clear()

    def _hand_over_plan(self) -> None:
        if self._plan and self._fetch_plan is not None:
            plan, self._plan = self._plan, {}
            self._fetch_plan.follow(plan)

    def _match(self, hosted: HostedLog) -> None:
        """Remove a log that the image gives no place here."""
        partition, topic_id = hosted.partition, hosted.topic_id
        empty = hosted.log.end_offset == hosted.log.start_offset
        if topic_id is None and not empty:
            log.error("%s: records of a topic whose id is lost", partition)
            self.logs.keep_aside(partition)
            return
        if topic_id is None:  # never appended to: as good for this topic as a new one
            topic_id = self.image.topic_ids.get(partition.topic)
        topic = None if topic_id is None else self.image.topics.get(topic_id)
        image = None if topic is None else topic.partitions.get(partition.partition)
        if image is not None and self._config.node_id in image.replicas:
            return
        log.info("%s of topic id %s has no place here any more: removed", partition, topic_id)
        self.logs.remove(partition)

    def _update(self, key: PartitionKey, image: PartitionImage | None) -> None:
        """Follow one partition to its state in `image`, None: it is deleted."""
        partition = TopicPartition(key.topic, key.partition)
        replica = self._replicas.get(partition)
        if replica is not None and replica.topic_id != key.topic_id:
            if image is None:
                return  # the older topic of this name, whose logs are gone already
            self._drop(replica)
            replica = None
        if image is None or self._config.node_id not in image.replicas:
            if replica is not None:
                self._drop(replica)
            return
        self._assign(replica or self._open(partition, key.topic_id), image)

    def _assign(self, replica: Replica, image: PartitionImage) -> None:
        assignment = Assignment(
            replicas=image.replicas,
            isr=image.isr,
            leader=image.leader,
            leader_epoch=image.leader_epoch,
            partition_epoch=image.partition_epoch,
        )
        if self.logs.must_refetch(replica.partition):
            assignment = self._unless_incomplete(replica, assignment)
        min_isr = self._settings_of(replica.partition.topic).min_isr
        if replica.apply(assignment, min_isr, self._now_ms()):
            follows = replica.state.role is Role.FOLLOWER
            self._plan[replica.partition] = replica.state.leader if follows else None
            self._news.append(replica)

    def _unless_incomplete(self, replica: Replica, assignment: Assignment) -> Assignment:
        """The assignment, without leadership while the log may lack what was acknowledged."""
        partition = replica.partition
        if assignment.leader == self._config.node_id:
            if not self._settings_of(partition.topic).unclean_leader_election:
                log.error(
                    "%s: not led although elected: this replica's log was damaged and set aside, "
                    "and no other has replaced it yet. The partition stays without a leader until "
                    "another replica leads; to give up what only the damaged log had, set "
                    "unclean.leader.election.enable=true on the topic",
                    partition,
                )
                return replace(assignment, leader=NO_NODE)
            log.warning("%s: led with what is left after damage (unclean election)", partition)
            self.logs.refetched(partition)
        elif assignment.leader != NO_NODE and self._config.node_id in assignment.isr:
            log.info("%s: in sync again after damage", partition)
            self.logs.refetched(partition)
        return assignment

    def _open(self, partition: TopicPartition, topic_id: UUID) -> Replica:
        settings = self._settings_of(partition.topic)
        hosted = self.logs.find(partition)
        if hosted is None:
            hosted = self.logs.create(partition, settings.log)
        else:  # found at the start, and matched with this topic id
            hosted.log.configure(settings.log)
        partition_log = hosted.log
        checkpointed = self.logs.high_watermarks.get(partition, Offset(0))
        start, end = partition_log.start_offset, partition_log.end_offset
        state = PartitionState(self._config.node_id, max(start, min(checkpointed, end)))
        replica = Replica(
            partition,
            topic_id,
            partition_log,
            state,
            identity=hosted.identity(topic_id),
            cutting=partial(self.logs.cutting, partition),
        )
        self._replicas[partition] = replica
        return replica

    def _drop(self, replica: Replica) -> None:
        """The replica is no longer ours: nobody may wait for it, its files go."""
        partition = replica.partition
        del self._replicas[partition]
        self._plan[partition] = None
        replica.retire()
        self.logs.remove(partition)
        log.info("%s: removed from here", partition)

    # -- configuration -------------------------------------------------------------------------

    def _follow_configs(self, delta: Delta) -> None:
        """Apply changed configuration to the logs that it concerns."""
        if not delta.configs:
            return
        topics = [r.name for r in delta.configs if r.resource_type == TOPIC_RESOURCE]
        if len(topics) < len(delta.configs):  # a broker's: the default of every topic
            self._settings.clear()
            topics = list(dict.fromkeys(partition.topic for partition in self._replicas))
        for topic in topics:
            self._settings.pop(topic, None)
            image = self.image.topic(topic)
            for number in () if image is None else image.partitions:
                self._backlog.add(partial(self._configure, TopicPartition(topic, number)))

    def _configure(self, partition: TopicPartition) -> None:
        replica = self._replicas.get(partition)
        if replica is not None:
            settings = self._settings_of(partition.topic)
            replica.configure(settings.log, settings.min_isr)

    def _settings_of(self, topic: str) -> TopicSettings:
        """The topic's settings now; all topics without configuration of their own share one."""
        key = topic if self.image.topic_config(topic) else ""
        found = self._settings.get(key)
        if found is None:
            found = topic_settings(
                self.image, self._config.static, self._config.node_id, key or None
            )
            self._settings[key] = found
        return found

    # -- checkpoints, and the end ----------------------------------------------------------------

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """The high watermark of every replica here."""
        return {partition: r.state.high_watermark for partition, r in self._replicas.items()}

    def truncated(self) -> None:
        """Logs were cut; to be told before they are appended to (see `LogDirectory.truncated`)."""
        self.logs.truncated()

    async def checkpoint_high_watermarks(self) -> None:
        """Return when the high watermarks are on disk. Raises OSError."""
        await self.logs.checkpoint_high_watermarks(self.high_watermarks())

    def failed_log(self) -> str:
        """Why this broker cannot go on: a log that cannot be written, a change not followed; empty
        while it can.
        """
        return self._backlog.failure or self.logs.failure

    def close(self) -> bool:
        """Flush and close every log and write the checkpoints; false when some log had failed."""
        self._backlog.end()
        for replica in self._replicas.values():
            replica.close()
        return self.logs.close(self.high_watermarks()) and not self._backlog.failure


def _say(replica: Replica) -> None:
    state = replica.state
    log.info(
        "%s: %s in leader epoch %d (leader %d, ISR %s, end %d, high watermark %d)",
        replica.partition,
        state.role.value,
        state.leader_epoch,
        state.leader,
        [node for node in state.replicas if node in state.isr],
        replica.log.end_offset,
        state.high_watermark,
    )
