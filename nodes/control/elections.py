"""Who leads a partition, and who stays in its ISR, when brokers come and go. Pure.

Rules, KRaft's: the leader stays if it is in the ISR and live; else the first live ISR member in
assignment order leads; else, where unclean elections are allowed for the topic, the first live
replica, with the ISR cut to it alone; else nobody (-1). Brokers that go leave every ISR, except
that the last member stays: it alone is known to hold every committed record, so the partition
waits for it, leaderless. A leadership change raises the leader epoch; an ISR change alone raises
only the partition epoch (followers need no new epoch to stay consistent, see KAFKA-15021).

Eligible leader replicas (KIP-966) are to enter here and nowhere else: `_elect` would look at
them after the ISR, and `without` would move to them those that it takes from an ISR at its minimum.
"""

from collections.abc import Callable, Iterable, Sequence

from nodes.control.image import ClusterImage, PartitionImage, PartitionKey
from nodes.control.records import NO_LEADER_CHANGE, RECOVERING, PartitionChangeRecord
from nodes.ids import NO_NODE, NodeId

IsLive = Callable[[NodeId], bool]
IsUnclean = Callable[[str], bool]


def without(
    image: ClusterImage, gone: Sequence[NodeId], unclean: IsUnclean
) -> list[PartitionChangeRecord]:
    """The changes that take the brokers `gone` out of every ISR and leadership.

    `gone` is in the order of their deaths: of an ISR that dies whole, the last to die stays.
    Costs O(partitions).
    """
    order = {node: rank for rank, node in enumerate(gone)}

    def live(node: NodeId) -> bool:
        return node not in order and image.active(node)

    records = []
    for key, partition in image.partitions():
        if partition.leader not in order and order.keys().isdisjoint(partition.isr):
            continue
        isr = tuple(node for node in partition.isr if node not in order)
        isr = isr or (max(partition.isr, key=order.__getitem__),)
        record = _change(key, partition, isr, live, unclean)
        if record is not None:
            records.append(record)
    return records


def with_broker(
    image: ClusterImage, back: NodeId, unclean: IsUnclean
) -> list[PartitionChangeRecord]:
    """Elections for the leaderless partitions that `back`, unfenced just now, makes possible.

    Costs O(partitions).
    """

    def live(node: NodeId) -> bool:
        return node == back or image.active(node)

    records = []
    for key, partition in image.partitions():
        if partition.leader != NO_NODE or back not in partition.replicas:
            continue
        record = _change(key, partition, partition.isr, live, unclean)
        if record is not None:
            records.append(record)
    return records


def preferred(
    image: ClusterImage,
    among: Iterable[tuple[PartitionKey, PartitionImage]] | None = None,
    *,
    limit: int,
) -> list[PartitionChangeRecord]:
    """Moves leaderships back to the preferred replicas that are live and in the ISR.

    Looks at the partitions `among` (all when None); makes at most `limit` changes.
    """
    records: list[PartitionChangeRecord] = []
    for key, partition in image.partitions() if among is None else among:
        if len(records) >= limit:
            break
        node = partition.preferred_leader
        if node != partition.leader and node in partition.isr and image.active(node):
            records.append(
                PartitionChangeRecord(
                    topic_id=key.topic_id, partition_id=key.partition, leader=node
                )
            )
    return records


def _change(
    key: PartitionKey,
    partition: PartitionImage,
    isr: tuple[NodeId, ...],
    live: IsLive,
    unclean: IsUnclean,
) -> PartitionChangeRecord | None:
    """The record that brings `partition` to `isr` and to the leader that follows from it."""
    leader = _elect(partition, isr, live)
    recovery = -1
    if leader == NO_NODE and unclean(key.topic):
        leader = next((node for node in partition.replicas if live(node)), NO_NODE)
        if leader != NO_NODE:
            isr, recovery = (leader,), RECOVERING
    record = PartitionChangeRecord(
        topic_id=key.topic_id,
        partition_id=key.partition,
        isr=None if isr == partition.isr else isr,
        leader=NO_LEADER_CHANGE if leader == partition.leader else leader,
        leader_recovery_state=recovery,
    )
    unchanged = record.isr is None and record.leader == NO_LEADER_CHANGE
    return None if unchanged else record


def _elect(partition: PartitionImage, isr: tuple[NodeId, ...], live: IsLive) -> NodeId:
    if partition.leader in isr and live(partition.leader):
        return partition.leader
    return next((node for node in partition.replicas if node in isr and live(node)), NO_NODE)
