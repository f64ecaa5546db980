"""Throttled replication (KIP-73): replicas that catch up leave room for those who serve.

A reassignment names the replicas that it moves in the topics' configuration, and a rate in the
brokers'; then this broker sends to (as leader) or fetches into (as follower) those replicas no more
than the rate in sum. Replicas in sync are never held back, for that would drive them out of it, but
what they use counts.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nodes.ids import NodeId, TopicPartition
from nodes.metadata.image import ClusterImage, ConfigResource
from nodes.metadata.records import TOPIC_RESOURCE
from nodes.replication.throttle import TokenBucket
from nodes.server.replicas.replica import Replica


class Side(NamedTuple):
    """One side's property names: the rate (of brokers), and the replicas (of topics)."""

    rate: str
    replicas: str


AS_LEADER: Final = Side(
    "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
)
AS_FOLLOWER: Final = Side(
    "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
)


class Throttle:
    """What one side of this broker may still use; follows the cluster's configuration."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._configs: Mapping[ConfigResource, Mapping[str, str]] | None = None
        self._bucket: TokenBucket | None = None
        self._replicas: dict[str, frozenset[int] | None] = {}  # None: all of the topic's

    def holds_back(
        self, replica: Replica, follower: NodeId, image: ClusterImage, now_ms: float
    ) -> bool:
        """Whether `follower` has to wait for records of this partition."""
        bucket = self._throttling(replica, image, now_ms)
        return bucket is not None and follower not in replica.state.isr and bucket.spent(now_ms)

    def used(self, replica: Replica, size: int, image: ClusterImage, now_ms: float) -> None:
        """`size` bytes of the partition were sent or fetched."""
        bucket = self._throttling(replica, image, now_ms)
        if bucket is not None:
            bucket.spend(size, now_ms)

    def ready_ms(self, now_ms: float) -> float:
        """When what is held back now may go on."""
        return now_ms if self._bucket is None else self._bucket.ready_ms(now_ms)

    def _throttling(
        self, replica: Replica, image: ClusterImage, now_ms: float
    ) -> TokenBucket | None:
        if image.configs is not self._configs:
            self._configure(replica.state.local, image, now_ms)
        if self._bucket is None:
            return None
        return self._bucket if self._names(replica.partition) else None

    def _names(self, partition: TopicPartition) -> bool:
        named = self._replicas.get(partition.topic, frozenset())
        return named is None or partition.partition in named

    def _configure(self, local: NodeId, image: ClusterImage, now_ms: float) -> None:
        self._configs = image.configs
        rate = image.broker_config(local).get(self._side.rate)
        bytes_per_s = None if rate is None else max(int(rate), 1)
        if bytes_per_s is None:
            self._bucket = None
        elif self._bucket is None or self._bucket.bytes_per_s != bytes_per_s:
            self._bucket = TokenBucket(bytes_per_s, now_ms)
        self._replicas = {
            resource.name: throttled_partitions(values[self._side.replicas], local)
            for resource, values in image.configs.items()
            if resource.resource_type == TOPIC_RESOURCE and self._side.replicas in values
        }


def throttled_partitions(text: str, broker: NodeId) -> frozenset[int] | None:
    """The partitions that a list of `partition:broker` names for `broker`; None for `*`: all."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    if items == ["*"]:
        return None
    pairs = (item.split(":") for item in items)
    return frozenset(int(partition) for partition, node in pairs if int(node) == broker)
