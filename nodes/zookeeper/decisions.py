"""What the old controller decides, as records of its image. Pure.

The rules of one partition are those of the quorum's controller without eligible leader replicas
(`nodes.controller.partition_changes`): the last member always stays in the ISR. As in Kafka before
KRaft, an unclean election takes the first live replica of the assignment, whatever its log has.

Everything here is decided on the image of now: after a conflict the controller reads what it missed
and decides again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from nodes.controller.elections import PolicyOf
from nodes.controller.partition_changes import (
    UNCHANGED,
    DesiredState,
    LogEnd,
    Logs,
    Rules,
    change,
)
from nodes.controller.reassignments import is_reassigning
from nodes.controller.settings import ControlSettings
from nodes.ids import NO_NODE, Epoch, NodeId, Offset, TopicPartition
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage, PartitionImage, PartitionKey
from nodes.metadata.records import (
    ELIGIBLE_LEADER_REPLICAS_FEATURE,
    GROUP_VERSION_FEATURE,
    RECOVERY_STATE_UNCHANGED,
    TRANSACTION_VERSION_FEATURE,
    PartitionChangeRecord,
    PartitionRecord,
)
from nodes.zookeeper.znodes import StateZnode, TopicZnode

_ANY_LOG: Final = LogEnd(Epoch(0), Offset(0))


class AnyLogs(Mapping[PartitionKey, Logs]):
    """The logs of all replicas, as if they were equal: then the first live replica is elected."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def __getitem__(self, key: PartitionKey) -> Logs:
        topic = self._image.topics.get(key.topic_id)
        if topic is None or key.partition not in topic.partitions:
            raise KeyError(key)
        return equal_logs(topic.partitions[key.partition])

    def __iter__(self) -> Iterator[PartitionKey]:
        return (key for key, _ in self._image.partitions())

    def __len__(self) -> int:
        return sum(1 for _ in self)


def equal_logs(partition: PartitionImage) -> Logs:
    """See AnyLogs."""
    return dict.fromkeys(partition.replicas, _ANY_LOG)


def decide(
    key: PartitionKey, partition: PartitionImage, rules: Rules, target: DesiredState = UNCHANGED
) -> PartitionChangeRecord | None:
    """The change of one partition to `target`, with its consequences. Its znode has no recovery
    state."""
    record = change(key, partition, rules._replace(logs=equal_logs(partition)), target)
    return without_recovery(record)


def without_recovery(record: PartitionChangeRecord | None) -> PartitionChangeRecord | None:
    """A record without a leader's recovery state, which the znodes of Kafka 3.0 do not have."""
    if record is None or record.leader_recovery_state == RECOVERY_STATE_UNCHANGED:
        return record
    return replace(record, leader_recovery_state=RECOVERY_STATE_UNCHANGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChanges:
    """How the registered brokers changed."""

    gone: tuple[BrokerImage, ...]
    """As they were: also those that came back with another epoch."""
    came: tuple[BrokerImage, ...]


def broker_changes(image: ClusterImage, found: Mapping[NodeId, BrokerImage]) -> BrokerChanges:
    """The changes from the image to the registrations that were read.

    A broker that was gone and came back between two looks has another epoch (KAFKA-1120).
    """
    gone = [
        broker
        for node, broker in image.brokers.items()
        if node not in found or found[node].epoch != broker.epoch
    ]
    left = {broker.node_id for broker in gone}
    came = [broker for node, broker in found.items() if node in left or node not in image.brokers]
    return BrokerChanges(gone=tuple(gone), came=tuple(came))


def without(
    image: ClusterImage, gone: Sequence[NodeId], policy: PolicyOf
) -> list[PartitionChangeRecord]:
    """The changes that take brokers out of every leadership and ISR."""
    left = frozenset(gone)
    return _changed(
        image,
        policy,
        live=lambda node: node not in left and image.active(node),
        concerned=lambda p: p.leader in left or not left.isdisjoint(p.isr),
        target=lambda p: DesiredState(isr=tuple(node for node in p.isr if node not in left)),
    )


def shut_down(
    image: ClusterImage, node: NodeId, policy: PolicyOf
) -> tuple[list[PartitionChangeRecord], list[TopicPartition]]:
    """A controlled shutdown: the changes that take a broker out of leaderships and ISRs where
    another member is live, and the partitions with other replicas that it still leads.
    """

    def movable(partition: PartitionImage) -> bool:
        return any(other != node and image.active(other) for other in partition.isr)

    records = _changed(
        image,
        policy,
        live=lambda each: each != node and image.active(each),
        concerned=lambda p: (p.leader == node or node in p.isr) and movable(p),
        target=lambda p: DesiredState(isr=tuple(each for each in p.isr if each != node)),
    )
    remaining = [
        TopicPartition(key.topic, key.partition)
        for key, p in image.partitions()
        if p.leader == node and len(p.replicas) > 1 and not movable(p)
    ]
    return records, remaining


def elect_leaderless(image: ClusterImage, policy: PolicyOf) -> list[PartitionChangeRecord]:
    """Leaders for the partitions without one that have a live candidate."""
    return _changed(
        image,
        policy,
        live=image.active,
        concerned=lambda p: p.leader == NO_NODE or not image.active(p.leader),
        target=lambda p: UNCHANGED,
    )


def finished_reassignments(
    image: ClusterImage, policy: PolicyOf, keys: Iterable[PartitionKey] | None = None
) -> list[PartitionChangeRecord]:
    """The ends of reassignments whose new replicas are all in the ISR; of `keys`, or of all."""
    wanted = None if keys is None else frozenset(keys)
    return _changed(
        image,
        policy,
        live=image.active,
        concerned=is_reassigning,
        target=lambda p: UNCHANGED,
        wanted=wanted,
    )


def _changed(
    image: ClusterImage,
    policy: PolicyOf,
    *,
    live: Callable[[NodeId], bool],
    concerned: Callable[[PartitionImage], bool],
    target: Callable[[PartitionImage], DesiredState],
    wanted: frozenset[PartitionKey] | None = None,
) -> list[PartitionChangeRecord]:
    records = []
    for topic in image.topics.values():
        rules = policy(topic.name).rules(live)
        for number, partition in topic.partitions.items():
            key = PartitionKey(topic.topic_id, topic.name, number)
            if concerned(partition) and (wanted is None or key in wanted):
                record = decide(key, partition, rules, target(partition))
                if record is not None:
                    records.append(record)
    return records


def new_partitions(image: ClusterImage, znode: TopicZnode) -> Iterator[PartitionRecord]:
    """The first states of partitions that have none; a partition without a live replica waits."""
    for number, assignment in sorted(znode.partitions.items()):
        isr = tuple(node for node in assignment.replicas if image.active(node))
        if isr:
            yield PartitionRecord(
                partition_id=number,
                topic_id=znode.topic_id,
                replicas=assignment.replicas,
                isr=isr,
                leader=isr[0],
                leader_epoch=Epoch(0),
                partition_epoch=0,
                adding_replicas=assignment.adding,
                removing_replicas=assignment.removing,
            )


def known_partition(
    znode: TopicZnode, number: int, state: StateZnode, version: int
) -> PartitionRecord:
    """A partition as its znodes have it."""
    assignment = znode.partitions[number]
    return PartitionRecord(
        partition_id=number,
        topic_id=znode.topic_id,
        replicas=assignment.replicas,
        isr=state.isr,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=version,
        adding_replicas=assignment.adding,
        removing_replicas=assignment.removing,
    )


def levels(settings: ControlSettings) -> Mapping[str, int]:
    """The levels of features (KIP-584) in a cluster with ZooKeeper: those of the files.

    There are no eligible leader replicas (KIP-966), which no znode could remember.
    """
    return {
        ELIGIBLE_LEADER_REPLICAS_FEATURE: 0,
        TRANSACTION_VERSION_FEATURE: settings.transaction_version,
        GROUP_VERSION_FEATURE: settings.group_version,
    }
