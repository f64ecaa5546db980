"""What a broker makes of its controller's requests: the records of an image of the cluster. Pure.

The broker's parts follow images (`nodes.metadata.image`), whichever the control plane is. Here the
requests of a ZooKeeper-mode controller become records. A request of a deposed controller, or for an
earlier registration of this broker, is refused as a whole (KIP-380). A partition's state that is
not newer than the known one is left out: the version of its znode decides, which rises with every
change. (Kafka compares leader epochs only. So its brokers do not take the new version from a
controller that repeats a change, and refuse ISR changes for ever: KAFKA-2729.)
"""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.ids import BrokerEpoch, Epoch, NodeId
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage, PartitionImage
from nodes.metadata.records import (
    BrokerEndpoint,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from nodes.wire.controller_requests import DURING_DELETION


def refusal(request: Any, controller_epoch: int, broker_epoch: BrokerEpoch) -> ErrorCode:
    """Why a controller's request is refused; `none` if it is not.

    `controller_epoch` is the highest that this broker knows, `broker_epoch` its registration's.
    """
    if request.controller_epoch < controller_epoch:
        return ErrorCode.stale_controller_epoch
    if request.broker_epoch < broker_epoch:
        return ErrorCode.stale_broker_epoch
    return ErrorCode.none


def is_newer(known: PartitionImage | None, leader_epoch: int, partition_epoch: int) -> bool:
    """Whether the state of a partition with these epochs is newer than the known one."""
    return known is None or known.partition_epoch < partition_epoch


def partition_of(image: ClusterImage, topic_id: UUID, number: int) -> PartitionImage | None:
    """The known state of a partition."""
    topic = image.topics.get(topic_id)
    return None if topic is None else topic.partitions.get(number)


def leader_and_isr(image: ClusterImage, request: Any) -> Iterator[MetadataRecord]:
    """The records of a LeaderAndIsr request: the roles of this broker's replicas."""
    for topic in request.topic_states:
        yield from _named(image, topic.topic_name, topic.topic_id)
        for row in topic.partition_states:
            known = partition_of(image, topic.topic_id, row.partition_index)
            if is_newer(known, row.leader_epoch, row.partition_epoch):
                yield PartitionRecord(
                    partition_id=row.partition_index,
                    topic_id=topic.topic_id,
                    replicas=_nodes(row.replicas),
                    isr=_nodes(row.isr),
                    leader=NodeId(row.leader),
                    leader_epoch=Epoch(row.leader_epoch),
                    partition_epoch=row.partition_epoch,
                    adding_replicas=_nodes(row.adding_replicas),
                    removing_replicas=_nodes(row.removing_replicas),
                )


def update_metadata(image: ClusterImage, request: Any) -> Iterator[MetadataRecord]:
    """The records of an UpdateMetadata request: the live brokers, topics, leaders."""
    yield from _brokers(image, request.live_brokers)
    for topic in request.topic_states:
        states = topic.partition_states
        if any(row.leader == DURING_DELETION for row in states):
            if topic.topic_id in image.topics:
                yield RemoveTopicRecord(topic_id=topic.topic_id)
            continue
        yield from _named(image, topic.topic_name, topic.topic_id)
        for row in states:
            before = partition_of(image, topic.topic_id, row.partition_index)
            if not is_newer(before, row.leader_epoch, row.zk_version):
                continue
            yield PartitionRecord(
                partition_id=row.partition_index,
                topic_id=topic.topic_id,
                replicas=_nodes(row.replicas),
                isr=_nodes(row.isr),
                leader=NodeId(row.leader),
                leader_epoch=Epoch(row.leader_epoch),
                partition_epoch=row.zk_version,
                adding_replicas=() if before is None else before.adding_replicas,
                removing_replicas=() if before is None else before.removing_replicas,
            )


def _named(image: ClusterImage, name: str, topic_id: UUID) -> Iterator[MetadataRecord]:
    """The topic's record if it is new; an older topic of this name is gone."""
    if topic_id in image.topics:
        return
    older = image.topic_ids.get(name)
    if older is not None:
        yield RemoveTopicRecord(topic_id=older)
    yield TopicRecord(name=name, topic_id=topic_id)


def _brokers(image: ClusterImage, live: Iterable[Any]) -> Iterator[MetadataRecord]:
    """The request names every live broker, and no epochs."""
    found = {NodeId(row.id_): row for row in live}
    for broker in image.brokers.values():
        if broker.node_id not in found:
            yield UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.epoch)
    for node, row in found.items():
        endpoints = tuple(
            BrokerEndpoint(
                name=each.listener,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in row.endpoints
        )
        before = image.brokers.get(node)
        if before is None or (before.endpoints, before.rack) != (endpoints, row.rack):
            yield registration(node, BrokerEpoch(-1), endpoints, row.rack)


def registration(
    node: NodeId, epoch: BrokerEpoch, endpoints: tuple[BrokerEndpoint, ...], rack: str | None
) -> RegisterBrokerRecord:
    """The record of a live broker."""
    return RegisterBrokerRecord(
        broker_id=node,
        incarnation_id=None,
        broker_epoch=epoch,
        end_points=endpoints,
        rack=rack,
        fenced=False,
    )


def in_shutdown(broker: BrokerImage) -> RegisterBrokerRecord:
    """The record that a broker is shutting down: it leads and joins nothing any more."""
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=None,
        broker_epoch=broker.epoch,
        end_points=broker.endpoints,
        rack=broker.rack,
        fenced=False,
        in_controlled_shutdown=True,
    )


def _nodes(values: Iterable[int]) -> tuple[NodeId, ...]:
    return tuple(NodeId(value) for value in values)
