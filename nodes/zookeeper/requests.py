"""The controller's requests to brokers, made from its image. Pure.

Every request has the controller's epoch, and the epoch of the broker's registration that it is for.
A request names at most MAX_PARTITIONS partitions, so that a broker reads it without a long pause.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from nodes.ids import NodeId
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage, PartitionImage, PartitionKey, TopicImage
from nodes.wire.controller_requests import (
    DURING_DELETION,
    FULL,
    INCREMENTAL,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaTopic,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from nodes.zookeeper.broker_view import partition_of

MAX_PARTITIONS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The controller that sends."""

    node_id: NodeId
    epoch: int


def leader_and_isr(
    sender: Sender,
    image: ClusterImage,
    to: BrokerImage,
    keys: Iterable[PartitionKey],
    *,
    full: bool = False,
) -> Iterator[LeaderAndIsrRequest]:
    """The roles of a broker in those of `keys` that it hosts.

    `full`: these are all of its partitions; the last request says so, even if there are none.
    """
    hosted = [
        (key, partition)
        for key, partition in _known(image, keys)
        if to.node_id in partition.replicas
    ]
    chunks = _chunks(hosted) or ([[]] if full else [])
    for number, chunk in enumerate(chunks, start=1):
        yield LeaderAndIsrRequest(
            controller_id=sender.node_id,
            controller_epoch=sender.epoch,
            broker_epoch=to.epoch,
            type_=FULL if full and number == len(chunks) else INCREMENTAL,
            topic_states=tuple(
                LeaderAndIsrTopic(
                    topic_name=name,
                    topic_id=topic_id,
                    partition_states=tuple(_role(sender, key.partition, p) for key, p in rows),
                )
                for (topic_id, name), rows in groupby(chunk, key=lambda row: row[0][:2])
            ),
        )


def _role(sender: Sender, number: int, partition: PartitionImage) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        partition_index=number,
        controller_epoch=sender.epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        adding_replicas=partition.adding_replicas,
        removing_replicas=partition.removing_replicas,
    )


class MetadataUpdate:
    """UpdateMetadata about the live brokers and `keys`, for one broker after another."""

    def __init__(
        self,
        sender: Sender,
        image: ClusterImage,
        keys: Iterable[PartitionKey],
        deleted: Sequence[TopicImage] = (),
    ) -> None:
        self._sender = sender
        known = list(_known(image, keys))
        live = frozenset(image.brokers)
        self._topics = [
            *(_metadata(sender, chunk, live) for chunk in _chunks(known)),
            *(_deleted(sender, topic) for topic in deleted),
        ] or [()]
        self._brokers = tuple(_live_broker(broker) for broker in image.brokers.values())

    def requests(self, to: BrokerImage) -> Iterator[UpdateMetadataRequest]:
        """The requests for one broker; at least one, for the brokers."""
        for topics in self._topics:
            yield UpdateMetadataRequest(
                controller_id=self._sender.node_id,
                controller_epoch=self._sender.epoch,
                broker_epoch=to.epoch,
                topic_states=topics,
                live_brokers=self._brokers,
            )


def _metadata(
    sender: Sender, chunk: Sequence[tuple[PartitionKey, PartitionImage]], live: frozenset[NodeId]
) -> tuple[UpdateMetadataTopic, ...]:
    return tuple(
        UpdateMetadataTopic(
            topic_name=name,
            topic_id=topic_id,
            partition_states=tuple(
                UpdateMetadataPartition(
                    partition_index=key.partition,
                    controller_epoch=sender.epoch,
                    leader=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    isr=partition.isr,
                    zk_version=partition.partition_epoch,
                    replicas=partition.replicas,
                    offline_replicas=tuple(n for n in partition.replicas if n not in live),
                )
                for key, partition in rows
            ),
        )
        for (topic_id, name), rows in groupby(chunk, key=lambda row: row[0][:2])
    )


def _deleted(sender: Sender, topic: TopicImage) -> tuple[UpdateMetadataTopic, ...]:
    number, partition = next(iter(topic.partitions.items()))
    state = UpdateMetadataPartition(
        partition_index=number,
        controller_epoch=sender.epoch,
        leader=DURING_DELETION,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        zk_version=partition.partition_epoch,
        replicas=partition.replicas,
    )
    return (
        UpdateMetadataTopic(
            topic_name=topic.name, topic_id=topic.topic_id, partition_states=(state,)
        ),
    )


def _live_broker(broker: BrokerImage) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id_=broker.node_id,
        endpoints=tuple(
            UpdateMetadataEndpoint(
                port=each.port,
                host=each.host,
                listener=each.name,
                security_protocol=each.security_protocol,
            )
            for each in broker.endpoints
        ),
        rack=broker.rack,
    )


def stop_replicas(
    sender: Sender, to: BrokerImage, stopped: Iterable[tuple[PartitionKey, PartitionImage]]
) -> Iterator[StopReplicaRequest]:
    """The replicas that a broker stops, and whose logs it deletes."""
    for chunk in _chunks(list(stopped)):
        yield StopReplicaRequest(
            controller_id=sender.node_id,
            controller_epoch=sender.epoch,
            broker_epoch=to.epoch,
            topic_states=tuple(
                StopReplicaTopic(
                    topic_name=name,
                    partition_states=tuple(
                        StopReplicaPartition(
                            partition_index=key.partition,
                            leader_epoch=partition.leader_epoch,
                            delete_partition=True,
                        )
                        for key, partition in rows
                    ),
                )
                for (_, name), rows in groupby(chunk, key=lambda row: row[0][:2])
            ),
        )


Row = tuple[PartitionKey, PartitionImage]


def _known(image: ClusterImage, keys: Iterable[PartitionKey]) -> Iterator[Row]:
    for key in keys:
        partition = partition_of(image, key.topic_id, key.partition)
        if partition is not None:
            yield key, partition


def _chunks(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[i : i + MAX_PARTITIONS] for i in range(0, len(rows), MAX_PARTITIONS)]
