"""The replicas that this node hosts, kept as the metadata log says.

Nothing is applied before the broker has caught up with its own registration: replaying old history
would make it lead in epochs long past. From then on every change of the image becomes roles,
fetchers and ISR bookkeeping here.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig
from nodes.control.image import ClusterImage, Delta, PartitionImage, PartitionKey
from nodes.ids import NodeId, Offset, TopicPartition
from nodes.log.checkpoints import OffsetCheckpoint
from nodes.log.log import Log, LogConfig
from nodes.replication.partition import Assignment, PartitionState, Role
from nodes.server.replica import Replica
from nodes.storage.disk import Disk

log = logging.getLogger("nodes.replicas")

HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"


class FetchPlan(Protocol):
    """Who fetches: told of every change, once for each batch of the metadata log."""

    def follow(self, changes: Mapping[TopicPartition, NodeId | None]) -> None:
        """Whom to fetch these partitions from now on, None: not at all. The others stay as before.

        Names every partition whose leader or leader epoch changed, and those no longer hosted here.
        """
        ...


class ReplicaManager:
    """Opens logs, assigns roles, finds replicas for requests."""

    def __init__(
        self, config: NodeConfig, disk: Disk, now_ms: Callable[[], float], *, clean_start: bool
    ) -> None:
        self._config = config
        self._disk = disk
        self._now_ms = now_ms
        self._clean_start = clean_start
        self._replicas: dict[TopicPartition, Replica] = {}
        self._names: dict[UUID, str] = {}
        self._high_watermarks = OffsetCheckpoint(disk, HIGH_WATERMARK_FILE).read()
        self._recovery_points = OffsetCheckpoint(disk, RECOVERY_POINT_FILE).read()
        self._fetch_plan: FetchPlan | None = None
        self.image = ClusterImage()
        self.active = False

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

    def follow(self, image: ClusterImage, delta: Delta) -> None:
        """Take over a newer image; before `activate` it is only remembered."""
        self.image = image
        if not self.active or not (delta.partitions or delta.configs):
            return
        touched = list(delta.partitions)
        if delta.configs:
            names = {resource.name for resource in delta.configs}
            touched += [
                PartitionKey(replica.topic_id, partition.topic, partition.partition)
                for partition, replica in self._replicas.items()
                if partition.topic in names
            ]
        self._update((key, self._partition(key)) for key in touched)

    def activate(self) -> None:
        """The broker has caught up: take up the roles that the image gives it."""
        self.active = True
        self._update(self.image.partitions())

    def _partition(self, key: PartitionKey) -> PartitionImage | None:
        topic = self.image.topics.get(key.topic_id)
        return None if topic is None else topic.partitions.get(key.partition)

    def _update(self, changes: Iterable[tuple[PartitionKey, PartitionImage | None]]) -> None:
        plan: dict[TopicPartition, NodeId | None] = {}
        for key, image in changes:
            partition = TopicPartition(key.topic, key.partition)
            if image is None or self._config.node_id not in image.replicas:
                self._drop(partition)
                plan[partition] = None
                continue
            replica = self._replicas.get(partition) or self._open(partition, key.topic_id)
            if self._assign(replica, image):
                follows = replica.state.role is Role.FOLLOWER
                plan[partition] = replica.state.leader if follows else None
        if plan and self._fetch_plan is not None:
            self._fetch_plan.follow(plan)

    def _assign(self, replica: Replica, image: PartitionImage) -> bool:
        """Give the replica its role; true when that or the leader epoch changed."""
        assignment = Assignment(
            replicas=image.replicas,
            isr=image.isr,
            leader=image.leader,
            leader_epoch=image.leader_epoch,
            partition_epoch=image.partition_epoch,
        )
        min_isr = self._min_isr(replica.partition.topic)
        changed = replica.apply(assignment, min_isr, self._now_ms())
        if changed:
            log.info(
                "%s: %s in leader epoch %d (leader %d, ISR %s, end %d, high watermark %d)",
                replica.partition,
                replica.state.role.value,
                image.leader_epoch,
                image.leader,
                list(image.isr),
                replica.log.end_offset,
                replica.state.high_watermark,
            )
        return changed

    def _min_isr(self, topic: str) -> int:
        own = self.image.topic_config(topic).get("min.insync.replicas")
        return self._config.topic_defaults.min_insync_replicas if own is None else int(own)

    def _open(self, partition: TopicPartition, topic_id: UUID) -> Replica:
        own = self.image.topic_config(partition.topic)
        defaults = self._config.topic_defaults
        log_config = LogConfig(
            segment_bytes=int(own.get("segment.bytes", defaults.segment_bytes)),
            index_interval_bytes=self._config.index_interval_bytes,
            max_message_bytes=int(own.get("max.message.bytes", defaults.max_message_bytes)),
        )
        partition_log = Log.open(
            self._disk,
            str(partition),
            log_config,
            clean=self._clean_start,
            recovery_point=self._recovery_points.get(partition, Offset(0)),
        )
        if partition_log.recovery.cut_bytes:
            log.warning("%s: recovery: %s", partition, partition_log.recovery)
        checkpointed = self._high_watermarks.get(partition, Offset(0))
        high_watermark = max(
            partition_log.start_offset, min(checkpointed, partition_log.end_offset)
        )
        state = PartitionState(self._config.node_id, high_watermark)
        replica = Replica(partition, topic_id, partition_log, state)
        self._replicas[partition] = replica
        return replica

    def _drop(self, partition: TopicPartition) -> None:
        replica = self._replicas.pop(partition, None)
        if replica is not None:
            replica.log.close()
            replica.watchers.changed()

    # -- checkpoints ---------------------------------------------------------------------------

    def checkpoint(self, *, durable: bool = False) -> None:
        """Write the high watermarks and recovery points.

        An older state is safe, unless a log was truncated since: a recovery point above the log's
        end would exempt what is appended next from validation. So a truncation makes it durable.
        """
        self._high_watermarks.update(
            {partition: r.state.high_watermark for partition, r in self._replicas.items()}
        )
        self._recovery_points.update(
            {partition: r.log.flushed_offset for partition, r in self._replicas.items()}
        )
        for name, offsets in (
            (RECOVERY_POINT_FILE, self._recovery_points),
            (HIGH_WATERMARK_FILE, self._high_watermarks),
        ):
            OffsetCheckpoint(self._disk, name).write(offsets, durable=durable)

    def failed_log(self) -> str:
        """Why some log cannot be written any more; empty while all can."""
        failures = (replica.log.offline for replica in self._replicas.values())
        return next((failure for failure in failures if failure), "")

    def close(self) -> bool:
        """Flush and close every log and write the checkpoints; false when some log had failed."""
        failed = bool(self.failed_log())
        for replica in self._replicas.values():
            if not replica.log.offline:
                replica.log.flush()
        if not failed:
            self.checkpoint(durable=True)
        for replica in self._replicas.values():
            replica.log.close()
        return not failed
