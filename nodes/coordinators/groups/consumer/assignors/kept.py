"""What members may keep of their last target assignment, and what is free."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from nodes.coordinators.groups.consumer.assignors.spec import MemberSpec


def kept_partitions(
    members: Sequence[MemberSpec], partition_counts: Mapping[UUID, int]
) -> tuple[list[dict[UUID, list[int]]], list[tuple[UUID, int]]]:
    """For each member its old partitions in ascending order; and all others, by topic and number.

    A member keeps a partition that exists, of a topic that it subscribes to. Of two members that
    both had it, the first keeps it (KAFKA-13081).
    """
    subscribed = frozenset[UUID]().union(*(m.topics for m in members)) & partition_counts.keys()
    left = {topic: set(range(partition_counts[topic])) for topic in sorted(subscribed)}
    kept: list[dict[UUID, list[int]]] = []
    for member in members:
        mine: dict[UUID, list[int]] = {}
        for topic in sorted(member.target):
            if topic not in member.topics or topic not in left:
                continue
            partitions = left[topic] & member.target[topic]
            if partitions:
                left[topic] -= partitions
                mine[topic] = sorted(partitions)
        kept.append(mine)
    return kept, [(topic, number) for topic, numbers in left.items() for number in sorted(numbers)]
