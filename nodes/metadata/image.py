"""The cluster as the metadata log describes it up to one offset: brokers, topics, configuration.

A ClusterImage never changes. `apply` makes the next image and the Delta between them, so that a
broker handles only the differences. `apply` costs shallow copies of the changed tables (the table
of topics, and the partition table of each changed topic), independent of the rest of the cluster.

The image trusts the log: the controller decided whether a change is allowed before it wrote the
record. A record that contradicts the image raises MetadataError, and nothing is applied.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from nodes.ids import NO_EPOCH, NO_OFFSET, BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.broker import BrokerImage
from nodes.metadata.errors import MetadataError
from nodes.metadata.records import (
    BROKER_RESOURCE,
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERY_STATE_UNCHANGED,
    TOPIC_RESOURCE,
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from nodes.metadata.unused import UnusedKey, UnusedRecord, keep
from nodes.metadata.unused_records import ZkMigrationStateRecord

K = TypeVar("K")
T = TypeVar("T")


class Change(NamedTuple, Generic[T]):
    """An object before and after a change; None if it did not exist then."""

    before: T | None
    after: T | None


class PartitionKey(NamedTuple):
    """A partition; the topic id distinguishes it from that of a deleted topic of the same name."""

    topic_id: UUID
    topic: str
    partition: int


class ConfigResource(NamedTuple):
    """The owner of a configuration: a topic (type 2), broker (type 4) or group (type 32), by name.

    The broker without a name stands for all brokers (KIP-226).
    """

    resource_type: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """One partition: its replicas, in-sync replicas, leader and epochs."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: Epoch
    partition_epoch: int
    leader_recovery_state: int = RECOVERED
    adding_replicas: tuple[NodeId, ...] = ()
    removing_replicas: tuple[NodeId, ...] = ()
    directories: tuple[UUID | None, ...] = ()
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()

    @property
    def preferred_leader(self) -> NodeId:
        """The first replica of the assignment."""
        return self.replicas[0]

    @staticmethod
    def of(record: PartitionRecord) -> "PartitionImage":
        """The partition that `record` describes."""
        return PartitionImage(
            replicas=record.replicas,
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            leader_recovery_state=record.leader_recovery_state,
            adding_replicas=record.adding_replicas,
            removing_replicas=record.removing_replicas,
            directories=record.directories or (None,) * len(record.replicas),
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
        )

    def changed(self, record: PartitionChangeRecord) -> "PartitionImage":
        """This partition after `record`: the partition epoch rises, the leader epoch only when
        the record names a leader.
        """
        leads = record.leader != NO_LEADER_CHANGE
        recovery = record.leader_recovery_state

        def new(value: tuple[T, ...] | None, old: tuple[T, ...]) -> tuple[T, ...]:
            return old if value is None else value

        return PartitionImage(
            replicas=new(record.replicas, self.replicas),
            isr=new(record.isr, self.isr),
            leader=record.leader if leads else self.leader,
            leader_epoch=Epoch(self.leader_epoch + 1) if leads else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=(
                self.leader_recovery_state if recovery == RECOVERY_STATE_UNCHANGED else recovery
            ),
            adding_replicas=new(record.adding_replicas, self.adding_replicas),
            removing_replicas=new(record.removing_replicas, self.removing_replicas),
            directories=new(record.directories, self.directories),
            elr=new(record.eligible_leader_replicas, self.elr),
            last_known_elr=new(record.last_known_elr, self.last_known_elr),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic and its partitions by number."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The changes made by one `apply`: each object with its state before and after.

    A partition that was created and changed in the same `apply` appears once. The partitions of a
    deleted topic have None as their state after it.
    """

    brokers: Mapping[NodeId, Change[BrokerImage]] = field(default_factory=dict)
    topics: Mapping[UUID, Change[TopicImage]] = field(default_factory=dict)
    """Created and deleted topics; a topic with changes only in partitions is not listed."""
    partitions: Mapping[PartitionKey, Change[PartitionImage]] = field(default_factory=dict)
    configs: tuple[ConfigResource, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.brokers or self.topics or self.partitions or self.configs)


_NO_CONFIG: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """The state of the cluster after the metadata log's record at `offset`, of quorum `epoch`."""

    offset: Offset = NO_OFFSET
    epoch: Epoch = NO_EPOCH
    brokers: Mapping[NodeId, BrokerImage] = field(default_factory=dict)
    topics: Mapping[UUID, TopicImage] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    unused: Mapping[UnusedKey, UnusedRecord] = field(default_factory=dict)
    """What this broker does not use, and keeps for Apache Kafka: see `nodes.metadata.unused`."""
    transaction: tuple[MetadataRecord, ...] | None = None
    """Records that take effect at the end of their transaction (KIP-868); None outside of a
    transaction. Kafka's controllers write transactions, ours do not."""

    def topic(self, name: str) -> TopicImage | None:
        """The topic of this name."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """The partition of that number of the topic of this name."""
        image = self.topic(topic)
        return None if image is None else image.partitions.get(partition)

    def partitions(self) -> Iterator[tuple[PartitionKey, PartitionImage]]:
        """Every partition, in order of creation. Costs O(partitions)."""
        for topic in self.topics.values():
            for number, partition in topic.partitions.items():
                yield PartitionKey(topic.topic_id, topic.name, number), partition

    def topic_config(self, name: str) -> Mapping[str, str]:
        """The configuration set on the topic, without defaults."""
        return self.configs.get(ConfigResource(TOPIC_RESOURCE, name), _NO_CONFIG)

    def cluster_config(self) -> Mapping[str, str]:
        """The dynamic default configuration of all brokers."""
        return self.configs.get(ConfigResource(BROKER_RESOURCE, ""), _NO_CONFIG)

    def broker_config(self, node_id: NodeId) -> Mapping[str, str]:
        """The dynamic configuration of one broker: its own values over the cluster's defaults."""
        own = self.configs.get(ConfigResource(BROKER_RESOURCE, str(node_id)), _NO_CONFIG)
        return {**self.cluster_config(), **own}

    def only_directory(self, node_id: NodeId) -> UUID | None:
        """The broker's log directory, if it is registered with one."""
        broker = self.brokers.get(node_id)
        return broker.log_dirs[0] if broker is not None and len(broker.log_dirs) == 1 else None

    def active(self, node_id: NodeId) -> bool:
        """Whether the broker is registered, unfenced and not shutting down."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker.active

    def apply(
        self, records: Sequence[MetadataRecord], offset: Offset, epoch: Epoch
    ) -> tuple["ClusterImage", Delta]:
        """The image after `records`, the last of which is at `offset` of quorum epoch `epoch`.

        Raises MetadataError when a record contradicts the image.
        """
        draft = _Draft(self)
        for record in records:
            draft.take(record)
        return draft.finish(offset, epoch)


class _Draft:
    """The next image under construction: it copies a table at the first write to it."""

    def __init__(self, base: ClusterImage) -> None:
        self._base = base
        self._brokers = base.brokers
        self._topics = base.topics
        self._topic_ids = base.topic_ids
        self._configs = base.configs
        self._features = base.features
        self._next_producer_id = base.next_producer_id
        self._unused = base.unused
        self._transaction = None if base.transaction is None else list(base.transaction)
        self._open_topics: dict[UUID, dict[int, PartitionImage]] = {}
        self._changed_brokers: dict[NodeId, None] = {}
        self._changed_topics: dict[UUID, None] = {}
        self._changed_partitions: dict[PartitionKey, None] = {}
        self._changed_configs: dict[ConfigResource, None] = {}

    def take(self, record: MetadataRecord) -> None:
        """Apply the next record of the log, or keep it until its transaction ends."""
        held = self._transaction
        match record:
            case BeginTransactionRecord() if held is None:
                self._transaction = []
            case BeginTransactionRecord():
                raise MetadataError("a transaction begins inside another transaction")
            case EndTransactionRecord() if held is not None:
                self._transaction = None
                for each in held:
                    self._replay(each)
            case AbortTransactionRecord() if held is not None:
                self._transaction = None
            case _ if held is not None:
                held.append(record)
            case _:
                self._replay(record)

    def _replay(self, record: MetadataRecord) -> None:
        match record:
            case PartitionChangeRecord():
                self._change_partition(record)
            case PartitionRecord():
                self._put_partition(record)
            case TopicRecord():
                self._create_topic(record)
            case RemoveTopicRecord():
                self._remove_topic(record)
            case ConfigRecord():
                self._configure(record)
            case RegisterBrokerRecord():
                self._put_broker(BrokerImage.of(record))
            case BrokerRegistrationChangeRecord():
                broker = self._broker(record.broker_id, record.broker_epoch)
                self._put_broker(broker.changed(record))
            case UnregisterBrokerRecord():
                self._unregister(record)
            case FeatureLevelRecord():
                features = _writable(self._features, self._base.features)
                features[record.name] = record.feature_level
                self._features = features
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case FenceBrokerRecord() | UnfenceBrokerRecord():
                broker = self._broker(record.id, record.epoch)
                self._put_broker(replace(broker, fenced=isinstance(record, FenceBrokerRecord)))
            case ClearElrRecord():
                self._clear_elr(record)
            case NoOpRecord() | RegisterControllerRecord() | ZkMigrationStateRecord():
                pass
            case EndTransactionRecord() | AbortTransactionRecord() | BeginTransactionRecord():
                raise MetadataError(f"{type(record).__name__} without an open transaction")
            case _:
                self._unused = keep(self._unused, record)

    def finish(self, offset: Offset, epoch: Epoch) -> tuple[ClusterImage, Delta]:
        """The finished image, and its differences from the base."""
        base = self._base
        if self._open_topics:
            topics = _writable(self._topics, base.topics)
            for topic_id, partitions in self._open_topics.items():
                topics[topic_id] = replace(topics[topic_id], partitions=partitions)
            self._topics = topics
        image = ClusterImage(
            offset=offset,
            epoch=epoch,
            brokers=self._brokers,
            topics=self._topics,
            topic_ids=self._topic_ids,
            configs=self._configs,
            features=self._features,
            next_producer_id=self._next_producer_id,
            unused=self._unused,
            transaction=None if self._transaction is None else tuple(self._transaction),
        )
        delta = Delta(
            brokers={
                node: Change(base.brokers.get(node), image.brokers.get(node))
                for node in self._changed_brokers
            },
            topics={
                topic_id: Change(base.topics.get(topic_id), image.topics.get(topic_id))
                for topic_id in self._changed_topics
            },
            partitions={
                key: Change(_partition_of(base, key), _partition_of(image, key))
                for key in self._changed_partitions
            },
            configs=tuple(self._changed_configs),
        )
        return image, delta

    def _topic(self, topic_id: UUID) -> TopicImage:
        topic = self._topics.get(topic_id)
        if topic is None:
            raise MetadataError(f"a record of topic id {topic_id}, which does not exist")
        return topic

    def _open(self, topic: TopicImage) -> dict[int, PartitionImage]:
        partitions = self._open_topics.get(topic.topic_id)
        if partitions is None:
            partitions = self._open_topics[topic.topic_id] = dict(topic.partitions)
        return partitions

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        partitions = self._open(topic)
        partition = partitions.get(record.partition_id)
        if partition is None:
            raise MetadataError(
                f"a change of {topic.name}-{record.partition_id}, which does not exist"
            )
        partitions[record.partition_id] = partition.changed(record)
        self._touch_partition(topic, record.partition_id)

    def _put_partition(self, record: PartitionRecord) -> None:
        topic = self._topic(record.topic_id)
        self._open(topic)[record.partition_id] = PartitionImage.of(record)
        self._touch_partition(topic, record.partition_id)

    def _clear_elr(self, record: ClearElrRecord) -> None:
        named = record.topic_name
        if named and named not in self._topic_ids:
            raise MetadataError(f"the end of leader eligibility in {named}, which does not exist")
        for topic_id in [self._topic_ids[named]] if named else list(self._topics):
            partitions = self._open_topics.get(topic_id, self._topics[topic_id].partitions)
            for number, partition in list(partitions.items()):
                if partition.elr or partition.last_known_elr:
                    self._change_partition(
                        PartitionChangeRecord(
                            partition_id=number,
                            topic_id=topic_id,
                            eligible_leader_replicas=(),
                            last_known_elr=(),
                        )
                    )

    def _touch_partition(self, topic: TopicImage, partition: int) -> None:
        key = PartitionKey(topic.topic_id, topic.name, partition)
        self._changed_partitions[key] = None

    def _create_topic(self, record: TopicRecord) -> None:
        if record.name in self._topic_ids or record.topic_id in self._topics:
            raise MetadataError(f"topic {record.name} ({record.topic_id}) is created twice")
        topics = _writable(self._topics, self._base.topics)
        topic_ids = _writable(self._topic_ids, self._base.topic_ids)
        topics[record.topic_id] = TopicImage(
            name=record.name, topic_id=record.topic_id, partitions={}
        )
        topic_ids[record.name] = record.topic_id
        self._topics, self._topic_ids = topics, topic_ids
        self._changed_topics[record.topic_id] = None

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        for partition in self._open_topics.pop(record.topic_id, topic.partitions):
            self._touch_partition(topic, partition)
        topics = _writable(self._topics, self._base.topics)
        topic_ids = _writable(self._topic_ids, self._base.topic_ids)
        del topics[record.topic_id], topic_ids[topic.name]
        self._topics, self._topic_ids = topics, topic_ids
        self._changed_topics[record.topic_id] = None
        resource = ConfigResource(TOPIC_RESOURCE, topic.name)
        if resource in self._configs:
            self._put_config(resource, {})

    def _configure(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = dict(self._configs.get(resource, _NO_CONFIG))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        self._put_config(resource, values)

    def _put_config(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        configs = _writable(self._configs, self._base.configs)
        configs[resource] = values
        if not values:
            del configs[resource]
        self._configs = configs
        self._changed_configs[resource] = None

    def _broker(self, node_id: NodeId, epoch: BrokerEpoch) -> BrokerImage:
        broker = self._brokers.get(node_id)
        if broker is None or broker.epoch != epoch:
            registered = "is not registered" if broker is None else f"has epoch {broker.epoch}"
            raise MetadataError(f"a record of broker {node_id}, epoch {epoch}, which {registered}")
        return broker

    def _put_broker(self, broker: BrokerImage) -> None:
        brokers = _writable(self._brokers, self._base.brokers)
        brokers[broker.node_id] = broker
        self._brokers = brokers
        self._changed_brokers[broker.node_id] = None

    def _unregister(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        brokers = _writable(self._brokers, self._base.brokers)
        del brokers[record.broker_id]
        self._brokers = brokers
        self._changed_brokers[record.broker_id] = None


def _writable(table: Mapping[K, T], base: Mapping[K, T]) -> dict[K, T]:
    """The draft's own copy of a table; it is made at the first write."""
    return table if table is not base and isinstance(table, dict) else dict(table)


def _partition_of(image: ClusterImage, key: PartitionKey) -> PartitionImage | None:
    topic = image.topics.get(key.topic_id)
    return None if topic is None else topic.partitions.get(key.partition)
