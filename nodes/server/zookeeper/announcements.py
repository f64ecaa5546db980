"""What the controller tells the brokers of its image: roles, metadata, replicas to delete.

Topics that are being deleted are hidden: no broker hears of them any more.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from nodes.ids import NodeId
from nodes.metadata.image import ClusterImage, PartitionKey
from nodes.server.zookeeper.broker_channels import BrokerChannels
from nodes.zookeeper import requests
from nodes.zookeeper.broker_view import partition_of


class Announcements:
    """See the module. Nothing waits for the brokers' answers."""

    def __init__(self, channels: BrokerChannels, sender: requests.Sender) -> None:
        self._channels = channels
        self._sender = sender
        self.hidden: set[UUID] = set()
        """The ids of topics that are being deleted."""

    def changed(
        self,
        before: ClusterImage,
        image: ClusterImage,
        keys: Sequence[PartitionKey],
        *,
        roles: bool = True,
    ) -> None:
        """Tell all brokers of changed partitions, and their replicas of the roles."""
        keys = [key for key in keys if key.topic_id not in self.hidden]
        if not keys:
            return
        if roles:
            for broker in image.brokers.values():
                hosted = requests.leader_and_isr(self._sender, image, broker, keys)
                self._channels.send(broker.node_id, hosted)
        update = requests.MetadataUpdate(self._sender, image, keys)
        for broker in image.brokers.values():
            self._channels.send(broker.node_id, update.requests(broker))
        for node, rows in _removed(before, image, keys).items():
            broker = image.brokers[node]
            self._channels.send(node, requests.stop_replicas(self._sender, broker, rows))

    def introduce(self, image: ClusterImage, nodes: Iterable[NodeId]) -> None:
        """Tell brokers everything: the whole cluster, then all of their own partitions."""
        keys = [key for key, _ in image.partitions() if key.topic_id not in self.hidden]
        update = requests.MetadataUpdate(self._sender, image, keys)
        for node in nodes:
            broker = image.brokers[node]
            self._channels.send(node, update.requests(broker))
            full = requests.leader_and_isr(self._sender, image, broker, keys, full=True)
            self._channels.send(node, full)

    def live_brokers(self, image: ClusterImage, nodes: Iterable[NodeId]) -> None:
        """Tell brokers which brokers are live."""
        update = requests.MetadataUpdate(self._sender, image, ())
        for node in nodes:
            self._channels.send(node, update.requests(image.brokers[node]))

    def delete_replicas(
        self,
        image: ClusterImage,
        node: NodeId,
        keys: Sequence[PartitionKey],
        done: Callable[[NodeId, Any], None],
    ) -> None:
        """Tell a broker to delete its replicas of a topic; `done` is called when it has."""
        broker = image.brokers[node]
        rows = [(k, p) for k in keys if (p := image.partition(k.topic, k.partition))]
        self._channels.send(node, requests.stop_replicas(self._sender, broker, rows), done)

    def forget_topic(self, image: ClusterImage, topic_id: UUID) -> None:
        """Tell all brokers that a topic is being deleted."""
        topic = image.topics[topic_id]
        if topic.partitions:
            update = requests.MetadataUpdate(self._sender, image, (), [topic])
            for broker in image.brokers.values():
                self._channels.send(broker.node_id, update.requests(broker))


def _removed(
    before: ClusterImage, image: ClusterImage, keys: Sequence[PartitionKey]
) -> dict[NodeId, list[requests.Row]]:
    """By live broker, the partitions of `keys` of which it is no replica any more."""
    rows: dict[NodeId, list[requests.Row]] = {}
    for key in keys:
        old = partition_of(before, key.topic_id, key.partition)
        new = partition_of(image, key.topic_id, key.partition)
        if old is None or new is None:
            continue
        for node in old.replicas:
            if node not in new.replicas and node in image.brokers:
                rows.setdefault(node, []).append((key, new))
    return rows
