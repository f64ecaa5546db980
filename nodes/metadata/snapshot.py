"""The content of a metadata snapshot: the cluster image as records (KIP-630). Pure.

The records of `to_records`, applied to an empty image, make the same image, including the order of
its tables. So a node that starts from the snapshot decides like a node that replayed the log.
`difference` returns the changes from one image to another.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from nodes.ids import NO_NODE, BrokerEpoch
from nodes.metadata.image import (
    Change,
    ClusterImage,
    Delta,
    PartitionImage,
    PartitionKey,
    TopicImage,
)
from nodes.metadata.records import (
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)

K = TypeVar("K")
T = TypeVar("T")

NO_BROKER_EPOCH: Final = BrokerEpoch(-1)


def to_records(image: ClusterImage) -> Iterator[MetadataRecord]:
    """The records that make `image` from an empty image. Offset and epoch are not included: they
    are the snapshot's. The records are made one by one, so that the caller may pause."""
    for name, level in image.features.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield broker.registration()
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for number, partition in topic.partitions.items():
            yield _partition(topic, number, partition)
    for resource, values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(
                resource_type=resource.resource_type,
                resource_name=resource.name,
                name=name,
                value=value,
            )
    yield from image.unused.values()
    if image.next_producer_id:
        yield ProducerIdsRecord(
            broker_id=NO_NODE,
            broker_epoch=NO_BROKER_EPOCH,
            next_producer_id=image.next_producer_id,
        )
    if image.transaction is not None:
        yield BeginTransactionRecord()
        yield from image.transaction


def _partition(topic: TopicImage, number: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )


def difference(before: ClusterImage, after: ClusterImage) -> Delta:
    """The differences between two images, as if one `apply` had made them. O(cluster).

    A topic that was deleted and created again under the same name is a different topic: the old
    partitions have None after, the new partitions None before.
    """
    topics = {
        topic_id: change
        for topic_id, change in _changes(before.topics, after.topics).items()
        if change.before is None or change.after is None
    }
    configs = _changes(before.configs, after.configs)
    return Delta(
        brokers=_changes(before.brokers, after.brokers),
        topics=topics,
        partitions=_changes(_partitions(before), _partitions(after)),
        configs=tuple(configs),
    )


def _partitions(image: ClusterImage) -> Mapping[PartitionKey, PartitionImage]:
    return dict(image.partitions())


def _changes(before: Mapping[K, T], after: Mapping[K, T]) -> dict[K, Change[T]]:
    gone = {key: Change(value, None) for key, value in before.items() if key not in after}
    changed = {
        key: Change(before.get(key), value)
        for key, value in after.items()
        if before.get(key) != value
    }
    return gone | changed
