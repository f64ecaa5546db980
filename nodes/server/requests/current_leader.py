"""The current leader of a partition, sent with an error, so that clients need not ask (KIP-951)."""

from collections.abc import Iterable
from typing import Any

from nodes.ids import NO_EPOCH, NO_NODE, NodeId, TopicPartition
from nodes.metadata.image import ClusterImage


def current_leader(image: ClusterImage, partition: TopicPartition) -> dict[str, int]:
    """Return the partition's leader and leader epoch in `image` as fields; both -1 if unknown."""
    found = image.partition(partition.topic, partition.partition)
    if found is None:
        return {"leader_id": NO_NODE, "leader_epoch": NO_EPOCH}
    return {"leader_id": found.leader, "leader_epoch": found.leader_epoch}


def node_endpoints(
    image: ClusterImage, nodes: Iterable[NodeId], listener: str
) -> list[dict[str, Any]]:
    """Return the `listener` addresses of those of `nodes` that are in service, each once."""
    rows = []
    for node in dict.fromkeys(nodes):
        broker = image.brokers.get(node)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(listener)
        if broker is not None and endpoint is not None:
            rows.append(
                {
                    "node_id": node,
                    "host": endpoint.host,
                    "port": endpoint.port,
                    "rack": broker.rack,
                }
            )
    return rows
