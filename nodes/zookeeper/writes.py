"""From the controller's records to writes of znodes. Pure.

A partition's state has a znode of its own. Its version is the partition epoch of the image, so a
write names the version that the decision was made on, and fails if the leader has changed the ISR
meanwhile. The assignment of all partitions of a topic is one znode, which only the controller
writes; where a record changes both, one write does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from uuid import UUID

from nodes.metadata.image import (
    ClusterImage,
    ConfigResource,
    PartitionImage,
    PartitionKey,
    TopicImage,
)
from nodes.metadata.records import (
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from nodes.zookeeper import paths, znodes
from nodes.zookeeper.operations import Create, Operation, SetData


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Operations that are done together, and the records that they make true."""

    operations: tuple[Operation, ...]
    records: tuple[MetadataRecord, ...] = ()
    partition: PartitionKey | None = None
    """The partition whose state is written, if one is."""
    alone: bool = False
    """Whether the next writes need this one's result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigWrite:
    """The new configuration of one resource, and the records that it makes true."""

    resource: ConfigResource
    values: Mapping[str, str]
    records: tuple[ConfigRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that a list of records asks for, in the order in which it is done."""

    configs: tuple[ConfigWrite, ...]
    writes: Iterator[Write]
    """Made one by one, because thousands at once would hold up the broker."""
    deletions: tuple[UUID, ...]
    """Topics to mark for deletion."""


def plan(image: ClusterImage, records: Sequence[MetadataRecord], controller_epoch: int) -> Plan:
    """The writes of records that were decided on this image."""
    made = {r.topic_id: r.name for r in records if isinstance(r, TopicRecord)}
    new = [r for r in records if isinstance(r, PartitionRecord)]
    changes = [r for r in records if isinstance(r, PartitionChangeRecord)]
    return Plan(
        configs=tuple(_configs(image, [r for r in records if isinstance(r, ConfigRecord)])),
        writes=chain(
            _topics(image, made, new),
            (_first_state(image, made, record, controller_epoch) for record in new),
            _changes(image, changes, controller_epoch),
        ),
        deletions=tuple(r.topic_id for r in records if isinstance(r, RemoveTopicRecord)),
    )


def _configs(image: ClusterImage, records: Iterable[ConfigRecord]) -> Iterator[ConfigWrite]:
    grouped: dict[ConfigResource, list[ConfigRecord]] = {}
    for record in records:
        resource = ConfigResource(record.resource_type, record.resource_name)
        grouped.setdefault(resource, []).append(record)
    for resource, changes in grouped.items():
        values = dict(image.configs.get(resource, {}))
        for each in changes:
            if each.value is None:
                values.pop(each.name, None)
            else:
                values[each.name] = each.value
        yield ConfigWrite(resource=resource, values=values, records=tuple(changes))


def _topics(
    image: ClusterImage, made: Mapping[UUID, str], new: Sequence[PartitionRecord]
) -> Iterator[Write]:
    """The assignments of new topics, and of topics that get more partitions."""
    for topic_id, group in groupby(new, key=lambda record: record.topic_id):
        rows = {record.partition_id: _assignment(record) for record in group}
        if topic_id in made:
            name = made[topic_id]
            content = znodes.TopicZnode(topic_id=topic_id, partitions=rows)
            yield Write(
                operations=(
                    Create(paths.topic(name), znodes.topic(content)),
                    Create(paths.partitions(name)),
                ),
                records=(TopicRecord(name=name, topic_id=topic_id),),
                alone=True,
            )
        else:
            known = image.topics[topic_id]
            if any(number not in known.partitions for number in rows):
                before = topic_znode(known).partitions
                content = znodes.TopicZnode(topic_id=topic_id, partitions={**before, **rows})
                yield Write(
                    operations=(SetData(paths.topic(known.name), znodes.topic(content)),),
                    alone=True,
                )


def _first_state(
    image: ClusterImage, made: Mapping[UUID, str], record: PartitionRecord, controller_epoch: int
) -> Write:
    name = made.get(record.topic_id) or image.topics[record.topic_id].name
    number = record.partition_id
    return Write(
        operations=(
            Create(paths.partition(name, number)),
            Create(paths.state(name, number), _state(record, controller_epoch)),
        ),
        records=(record,),
        partition=PartitionKey(record.topic_id, name, number),
    )


def _changes(
    image: ClusterImage, records: Sequence[PartitionChangeRecord], controller_epoch: int
) -> Iterator[Write]:
    reassigned: dict[UUID, dict[int, znodes.Assignment]] = {}
    for record in records:
        topic = image.topics[record.topic_id]
        number = record.partition_id
        before = topic.partitions[number]
        after = before.changed(record)
        operations: list[Operation] = [
            change_of_state(topic.name, number, before, _state(after, controller_epoch))
        ]
        alone = _assignment(after) != _assignment(before)
        if alone:
            rows = reassigned.setdefault(record.topic_id, dict(topic_znode(topic).partitions))
            rows[number] = _assignment(after)
            content = znodes.TopicZnode(topic_id=topic.topic_id, partitions=dict(rows))
            operations.append(SetData(paths.topic(topic.name), znodes.topic(content)))
        yield Write(
            operations=tuple(operations),
            records=(record,),
            partition=PartitionKey(topic.topic_id, topic.name, number),
            alone=alone,
        )


def change_of_state(topic: str, number: int, before: PartitionImage, data: bytes) -> SetData:
    """The write of a partition's next state, on condition that this is the state before it."""
    return SetData(paths.state(topic, number), data, before.partition_epoch)


def topic_znode(topic: TopicImage) -> znodes.TopicZnode:
    """A topic's id and assignment."""
    rows = {number: _assignment(partition) for number, partition in topic.partitions.items()}
    return znodes.TopicZnode(topic_id=topic.topic_id, partitions=rows)


def _assignment(partition: PartitionImage | PartitionRecord) -> znodes.Assignment:
    return znodes.Assignment(
        replicas=partition.replicas,
        adding=partition.adding_replicas,
        removing=partition.removing_replicas,
    )


def _state(partition: PartitionImage | PartitionRecord, controller_epoch: int) -> bytes:
    return znodes.state(
        znodes.StateZnode(
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=partition.isr,
            controller_epoch=controller_epoch,
        )
    )


def config_path(resource: ConfigResource) -> str:
    """The znode of a resource's configuration."""
    return paths.config(resource.resource_type, resource.name)


def config_entity(resource: ConfigResource) -> str:
    """How a notification names a resource."""
    return config_path(resource).removeprefix(f"{paths.CONFIG}/")


def resource_of(entity: str) -> ConfigResource | None:
    """The resource that a notification names; None for one of another kind, as of users."""
    folder, _, name = entity.partition("/")
    for resource_type, known in paths.CONFIG_TYPES.items():
        if folder == known and name:
            is_all = resource_type != TOPIC_RESOURCE and name == paths.ALL_BROKERS
            return ConfigResource(resource_type, "" if is_all else name)
    return None
