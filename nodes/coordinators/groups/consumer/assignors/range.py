"""The range assignor: each topic's partitions in ranges, one range for each of its subscribers.

Topics with equally many partitions and the same subscribers are co-partitioned: the same member has
the same partitions of each. Members are ordered as in Kafka: static members by their instance ids
first, then the others by their member ids. So a static member that comes back has its old range.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from nodes.coordinators.groups.consumer.assignors.spec import Assignment, MemberSpec


def assign_ranges(
    members: Sequence[MemberSpec], partition_counts: Mapping[UUID, int]
) -> dict[str, Assignment]:
    """The target assignment of each member. The first members of a topic have one more, if any."""
    ordered = sorted(
        members,
        key=lambda m: (
            m.instance_id is None,
            m.member_id if m.instance_id is None else m.instance_id,
        ),
    )
    topics = sorted(partition_counts)
    exists = frozenset(topics)
    subscribers: dict[int, list[str]] = {topic.int: [] for topic in topics}  # UUIDs hash slowly
    for member in ordered:
        for topic in member.topics & exists:
            subscribers[topic.int].append(member.member_id)
    result: dict[str, dict[UUID, frozenset[int]]] = {m.member_id: {} for m in ordered}
    for topic in topics:
        served = subscribers[topic.int]
        share, more = divmod(partition_counts[topic], len(served)) if served else (0, 0)
        begin = 0
        for at, member_id in enumerate(served if share else served[:more]):
            end = begin + share + (at < more)
            result[member_id][topic] = frozenset(range(begin, end))
            begin = end
    return dict(result)
