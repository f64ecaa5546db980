"""The replicas that this node hosts; they follow the metadata log.

Nothing is applied before the broker has caught up with its own registration: replaying old records
would make it lead in epochs long past. Then the logs found on the disk are matched with the image,
and the logs of deleted topics and of replicas that were moved elsewhere are removed. From then on
every change of the image changes roles, fetchers and ISRs here, in the order of the metadata log,
and a bounded number of changes in each turn of the event loop (`backlog`).

A partition is identified by its topic's id: a topic that was deleted and created again under the
same name starts with empty logs.
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
from nodes.controller.configs import TRANSACTION_VERIFICATION
from nodes.ids import NO_NODE, NO_OFFSET, NodeId, Offset, TopicPartition
from nodes.metadata.image import ClusterImage, Delta, PartitionImage, PartitionKey
from nodes.metadata.records import TOPIC_RESOURCE
from nodes.replication.partition import PartitionRegistration, PartitionState, Role
from nodes.server.replicas.backlog import Backlog
from nodes.server.replicas.log_directory import HostedLog, LogDirectory
from nodes.server.replicas.replica import Replica
from nodes.server.replicas.topic_settings import TopicSettings, topic_settings
from nodes.storage.disk import Disk

log = logging.getLogger("nodes.replicas")

MAX_LOGGED_CHANGES = 10
"""Up to so many role changes of one metadata batch get a log line each; more are summed up."""


class FetcherManager(Protocol):
    """The fetchers of this broker, as the replica manager sees them."""

    def update_leaders(self, changes: Mapping[TopicPartition, NodeId | None]) -> None:
        """Fetch each of these partitions from its new leader; None: do not fetch it any more.

        Called after each turn of the backlog with every partition whose leader or leader epoch
        changed, or that this broker no longer hosts. Other partitions stay as they are.
        """
        ...

    def configs_changed(self) -> None:
        """A configuration of the cluster changed: a throttle may be another one."""
        ...


class RoleListener(Protocol):
    """Hears of the new roles of some topics' replicas, as the coordinators do."""

    def role_changed(self, replica: Replica) -> None:
        """The role or the leader epoch of `replica` changed. A removed replica is not reported."""
        ...


class ReplicaManager:
    """Gives replicas their roles, and finds the replica for a request."""

    def __init__(
        self, config: NodeConfig, disk: Disk, now_ms: Callable[[], float], *, clean_start: bool
    ) -> None:
        self._config = config
        self._now_ms = now_ms
        self._replicas: dict[TopicPartition, Replica] = {}
        self._settings: dict[str, TopicSettings] = {}
        self._configured = ClusterImage()
        """The image whose configuration is in force: a step of the backlog sets it, so that a
        partition's change never meets a later configuration."""
        self._fetchers: FetcherManager | None = None
        self._role_listeners: dict[str, RoleListener] = {}
        self._leader_changes: dict[TopicPartition, NodeId | None] = {}
        self._changed: list[Replica] = []
        self._backlog = Backlog(now_ms, self._update_fetchers)
        self._applying = False
        self.logs = LogDirectory(disk, clean=clean_start)
        self.image = ClusterImage()
        self.applied_offset = NO_OFFSET
        """The metadata offset up to which the roles are applied; the image may be ahead."""
        self.on_compacted: Callable[[], None] = lambda: None
        """Called for each replica whose topic is compacted now."""
        self._active = asyncio.Event()
        """Set once the roles of the first image with this broker's registration are applied."""

    # -- finding -------------------------------------------------------------------------------

    def find(self, partition: TopicPartition) -> Replica | None:
        """The local replica of `partition`, whatever its role."""
        return self._replicas.get(partition)

    def all(self) -> Iterable[Replica]:
        """Every local replica, in order of creation."""
        return list(self._replicas.values())

    def missing_replica_error(self, partition: TopicPartition) -> ErrorCode:
        """The error code for a request to a partition without a local replica."""
        known = self.image.partition(partition.topic, partition.partition) is not None
        if known:
            return ErrorCode.not_leader_or_follower
        return ErrorCode.unknown_topic_or_partition

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """The name of the topic with this id; None if the metadata does not know it."""
        topic = None if topic_id is None else self.image.topics.get(topic_id)
        return None if topic is None else topic.name

    def eligible(self, broker: NodeId) -> bool:
        """Whether `broker` may join an ISR: unfenced and not shutting down (KIP-841)."""
        return self.image.active(broker)

    # -- following the metadata log ------------------------------------------------------------

    def set_fetchers(self, fetchers: FetcherManager) -> None:
        """Report leader changes to `fetchers` from now on."""
        self._fetchers = fetchers

    def set_role_listener(self, topic: str, listener: RoleListener) -> None:
        """Report new roles of the replicas of `topic` to `listener` from now on."""
        self._role_listeners[topic] = listener

    async def recover(self) -> None:
        """Open every log on the disk, before the broker registers. Raises OSError."""
        await self.logs.recover(self._settings_of("").log)

    @property
    def verifies_transactions(self) -> bool:
        """transaction.partition.verification.enable, as it is configured at the moment."""
        altered = self.image.broker_config(self._config.node_id).get(TRANSACTION_VERIFICATION)
        if altered is None:
            return self._config.transactions.verifies_partitions
        return altered.lower() == "true"

    def apply_delta(self, image: ClusterImage, delta: Delta) -> None:
        """Apply a newer image; before `activate` it is only stored."""
        self.image = image
        if not self._applying:
            self._configured = image
            return
        configured = self._partitions_configured_by(delta)
        if delta.configs:
            self._backlog.add(partial(self._configure_by, image, delta))
        for key, change in delta.partitions.items():
            self._backlog.add(partial(self._update, key, change.after))
        for partition in configured:
            self._backlog.add(partial(self._configure, partition))
        self._backlog.add(partial(self._applied, image.offset))
        self._backlog.run()

    @property
    def active(self) -> bool:
        """Whether this broker has applied the roles of its registration."""
        return self._active.is_set()

    async def wait_until_active(self) -> None:
        """Wait until the broker is active."""
        await self._active.wait()

    def activate(self) -> None:
        """The image holds this broker's registration: start to apply its roles. Idempotent."""
        if self._applying:
            return
        self._applying = True
        self._settings.clear()
        self._configured = self.image
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
            log.info("%d replicas in their roles at metadata offset %d", len(self._changed), offset)
            self._active.set()
        elif len(self._changed) <= MAX_LOGGED_CHANGES:
            for replica in self._changed:
                _log_role(replica)
        else:
            roles = [replica.state.role for replica in self._changed]
            counts = ", ".join(f"{roles.count(role)} {role.value}" for role in Role)
            log.info("%d replicas changed roles: %s", len(roles), counts)
        self._changed.clear()

    def _update_fetchers(self) -> None:
        if self._leader_changes and self._fetchers is not None:
            changes, self._leader_changes = self._leader_changes, {}
            self._fetchers.update_leaders(changes)

    def _match(self, hosted: HostedLog) -> None:
        """Remove a log that the image does not assign to this broker."""
        partition, topic_id = hosted.partition, hosted.topic_id
        empty = hosted.log.end_offset == hosted.log.start_offset
        if topic_id is None and not empty:
            log.error("%s: the log has records, but its topic id is lost", partition)
            self.logs.keep_aside(partition)
            return
        if topic_id is None and hosted.log.end_offset == 0:  # as a new log of any topic
            topic_id = self.image.topic_ids.get(partition.topic)
        topic = None if topic_id is None else self.image.topics.get(topic_id)
        image = None if topic is None else topic.partitions.get(partition.partition)
        if image is not None and self._config.node_id in image.replicas:
            return
        log.info("%s of topic id %s is not assigned to this node: removed", partition, topic_id)
        self.logs.remove(partition)

    def _update(self, key: PartitionKey, image: PartitionImage | None) -> None:
        """Apply one partition's state in `image`; None: the partition was deleted."""
        partition = TopicPartition(key.topic, key.partition)
        replica = self._replicas.get(partition)
        if replica is not None and replica.topic_id != key.topic_id:
            if image is None:
                return  # an older topic of this name, whose logs are removed already
            self._remove(replica)
            replica = None
        if image is None or self._config.node_id not in image.replicas:
            if replica is not None:
                self._remove(replica)
            return
        self._assign(replica or self._open(partition, key.topic_id), image)

    def _assign(self, replica: Replica, image: PartitionImage) -> None:
        assignment = PartitionRegistration(
            replicas=image.replicas,
            isr=image.isr,
            leader=image.leader,
            leader_epoch=image.leader_epoch,
            partition_epoch=image.partition_epoch,
        )
        if self.logs.must_refetch(replica.partition):
            assignment = self._without_unsafe_leadership(replica, assignment)
        min_isr = self._settings_of(replica.partition.topic).min_isr
        if replica.apply(assignment, min_isr, self._now_ms()):
            follows = replica.state.role is Role.FOLLOWER
            self._leader_changes[replica.partition] = replica.state.leader if follows else None
            self._changed.append(replica)
            self._report_role(replica)

    def _report_role(self, replica: Replica) -> None:
        listener = self._role_listeners.get(replica.partition.topic)
        if listener is not None:
            listener.role_changed(replica)

    def _without_unsafe_leadership(
        self, replica: Replica, assignment: PartitionRegistration
    ) -> PartitionRegistration:
        """The assignment, without leadership while the log may lack acknowledged records."""
        partition = replica.partition
        if assignment.leader == self._config.node_id:
            if not self._settings_of(partition.topic).unclean_leader_election:
                log.error(
                    "%s: this replica was elected but does not lead: its log was damaged and set "
                    "aside, and the new log is not complete yet. The partition stays without a "
                    "leader until another replica leads; to accept the loss of records that only "
                    "the damaged log had, set unclean.leader.election.enable=true on the topic and "
                    "restart this node",
                    partition,
                )
                return replace(assignment, leader=NO_NODE)
            log.warning("%s: leads with an incomplete log (unclean election)", partition)
            self.logs.refetched(partition)
        elif assignment.leader != NO_NODE and self._config.node_id in assignment.isr:
            log.info("%s: in sync again after its log was damaged", partition)
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
            unsynced_metadata=hosted.missing_metadata_file(topic_id),
            before_truncation=partial(self.logs.before_truncation, partition),
        )
        self._replicas[partition] = replica
        if settings.log.compaction is not None:
            self.on_compacted()
        return replica

    def _remove(self, replica: Replica) -> None:
        """This node no longer hosts the replica: complete its requests and delete its log."""
        partition = replica.partition
        del self._replicas[partition]
        self._leader_changes[partition] = None
        replica.retire()
        self._report_role(replica)
        self.logs.remove(partition)
        log.info("%s: removed from this node", partition)

    # -- configuration -------------------------------------------------------------------------

    def _partitions_configured_by(self, delta: Delta) -> list[TopicPartition]:
        """The partitions whose configuration may change; those of a broker's, as it is the default
        of all topics, are all that this node has or is about to have.
        """
        topics = [r.name for r in delta.configs if r.resource_type == TOPIC_RESOURCE]
        if len(topics) < len(delta.configs):
            return [
                TopicPartition(key.topic, key.partition)
                for key, partition in self.image.partitions()
                if self._config.node_id in partition.replicas
            ]
        found = [topic for name in topics if (topic := self.image.topic(name)) is not None]
        return [
            TopicPartition(topic.name, number) for topic in found for number in topic.partitions
        ]

    def _configure_by(self, image: ClusterImage, delta: Delta) -> None:
        """Let the configuration of `image` be in force."""
        self._configured = image
        if self._fetchers is not None:
            self._fetchers.configs_changed()
        if any(resource.resource_type != TOPIC_RESOURCE for resource in delta.configs):
            self._settings.clear()
        for resource in delta.configs:
            self._settings.pop(resource.name, None)

    def _configure(self, partition: TopicPartition) -> None:
        replica = self._replicas.get(partition)
        if replica is not None:
            settings = self._settings_of(partition.topic)
            replica.configure(settings.log, settings.min_isr)
            if settings.log.compaction is not None:
                self.on_compacted()

    def _settings_of(self, topic: str) -> TopicSettings:
        """The topic's settings; all topics without own configuration share one value."""
        key = topic if self._configured.topic_config(topic) else ""
        found = self._settings.get(key)
        if found is None:
            found = topic_settings(
                self._configured, self._config.static, self._config.node_id, key or None
            )
            self._settings[key] = found
        return found

    # -- checkpoints and closing -----------------------------------------------------------------

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """The high watermark of every local replica."""
        return {partition: r.state.high_watermark for partition, r in self._replicas.items()}

    def after_truncation(self) -> None:
        """Call after logs were truncated, before the next append (`LogDirectory`)."""
        self.logs.after_truncation()

    async def checkpoint_high_watermarks(self) -> None:
        """Return when the high watermarks are on disk. Raises OSError."""
        await self.logs.checkpoint_high_watermarks(self.high_watermarks())

    def failed_log(self) -> str:
        """Why this broker cannot continue: a log cannot be written, or a change not be applied.

        Empty while it can continue.
        """
        return self._backlog.failure or self.logs.failure

    def close(self) -> bool:
        """Flush and close every log and write the checkpoints; false if some log had failed."""
        self._backlog.end()
        for replica in self._replicas.values():
            replica.close()
        return self.logs.close(self.high_watermarks()) and not self._backlog.failure


def _log_role(replica: Replica) -> None:
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
