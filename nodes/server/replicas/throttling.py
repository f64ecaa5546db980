"""Throttled replication (KIP-73): replicas that catch up must not crowd out client requests.

A reassignment names the replicas that it moves in the configuration of the topics, and a rate in
the configuration of the brokers. Then this broker sends to those replicas (as leader), or fetches
into them (as follower), no more than the rate in sum. In-sync replicas are never throttled, because
that would drive them out of the ISR, but their bytes count.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nodes.ids import NodeId, TopicPartition
from nodes.metadata.image import ClusterImage, ConfigResource
from nodes.metadata.records import TOPIC_RESOURCE
from nodes.replication.throttle import TokenBucket
from nodes.server.replicas.replica import Replica


class ThrottleProperties(NamedTuple):
    """The property names of one side: the rate (of brokers) and the replicas (of topics)."""

    rate: str
    replicas: str


AS_LEADER: Final = ThrottleProperties(
    "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
)
AS_FOLLOWER: Final = ThrottleProperties(
    "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
)


class ReplicationThrottle:
    """The quota of one side of this broker; it follows the cluster's configuration."""

    def __init__(self, properties: ThrottleProperties) -> None:
        self._properties = properties
        self._configs: Mapping[ConfigResource, Mapping[str, str]] | None = None
        self._bucket: TokenBucket | None = None
        self._replicas: dict[str, frozenset[int] | None] = {}  # None: all of the topic's

    def is_throttled(
        self, replica: Replica, follower: NodeId, image: ClusterImage, now_ms: float
    ) -> bool:
        """Whether `follower` has to wait for records of this partition."""
        bucket = self._bucket_of(replica, image, now_ms)
        return bucket is not None and follower not in replica.state.isr and bucket.spent(now_ms)

    def record(self, replica: Replica, size: int, image: ClusterImage, now_ms: float) -> None:
        """Count `size` bytes of the partition that were sent or fetched."""
        bucket = self._bucket_of(replica, image, now_ms)
        if bucket is not None:
            bucket.spend(size, now_ms)

    def ready_ms(self, now_ms: float) -> float:
        """When a partition that is throttled now may continue, in milliseconds of `now_ms`."""
        return now_ms if self._bucket is None else self._bucket.ready_ms(now_ms)

    def _bucket_of(
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
        rate = image.broker_config(local).get(self._properties.rate)
        bytes_per_s = None if rate is None else max(int(rate), 1)
        if bytes_per_s is None:
            self._bucket = None
        elif self._bucket is None or self._bucket.bytes_per_s != bytes_per_s:
            self._bucket = TokenBucket(bytes_per_s, now_ms)
        self._replicas = {
            resource.name: throttled_partitions(values[self._properties.replicas], local)
            for resource, values in image.configs.items()
            if resource.resource_type == TOPIC_RESOURCE and self._properties.replicas in values
        }


def throttled_partitions(text: str, broker: NodeId) -> frozenset[int] | None:
    """Return the partitions that a list of `partition:broker` names for `broker`.

    `*` means all partitions, and the result is then None.
    """
    items = [item.strip() for item in text.split(",") if item.strip()]
    if items == ["*"]:
        return None
    pairs = (item.split(":") for item in items)
    return frozenset(int(partition) for partition, node in pairs if int(node) == broker)
