"""In which log directory each replica is (KIP-858). Pure.

Kafka's brokers may have several directories, and tell the controller in which one a replica is. A
broker with a single one need not: the controller knows. Then a node of Apache Kafka that goes on
with this metadata has nothing to assign, and Kafka 4.2.0 forgets the eligible leader replicas of a
partition when it assigns (docs/findings/assigned-directories-forget-eligible-leaders.md).
"""

from collections.abc import Iterator
from uuid import UUID

from nodes.controller.partition_changes import Nodes
from nodes.ids import NodeId
from nodes.metadata.image import ClusterImage, PartitionImage
from nodes.metadata.records import PartitionChangeRecord

Directories = tuple[UUID | None, ...]


def directories_of(image: ClusterImage, replicas: Nodes) -> Directories:
    """The directory of each new replica; None for a broker that is unknown or has several."""
    return tuple(map(image.only_directory, replicas))


def moved(
    image: ClusterImage, broker_id: NodeId, log_dirs: Directories
) -> Iterator[PartitionChangeRecord]:
    """The changes to the broker's replicas when it registers with `log_dirs`, one of them."""
    if len(log_dirs) != 1:
        return
    (directory,) = log_dirs
    for key, partition in image.partitions():
        if broker_id in partition.replicas:
            changed = _with(partition, broker_id, directory)
            if changed != partition.directories:
                yield PartitionChangeRecord(
                    topic_id=key.topic_id, partition_id=key.partition, directories=changed
                )


def _with(partition: PartitionImage, broker_id: NodeId, directory: UUID | None) -> Directories:
    known = zip(partition.replicas, partition.directories, strict=True)
    return tuple(directory if node == broker_id else old for node, old in known)
