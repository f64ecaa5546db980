"""The uniform assignor: every member has as many partitions as the next, and keeps what it can.

If all members subscribe to the same topics, no member has two partitions more than another, and
no fewer partitions could have changed hands. Other groups are `heterogeneous`.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from nodes.coordinators.groups.consumer.assignors.heterogeneous import assign_heterogeneously
from nodes.coordinators.groups.consumer.assignors.kept import kept_partitions
from nodes.coordinators.groups.consumer.assignors.spec import Assignment, MemberSpec


def assign_uniformly(
    members: Sequence[MemberSpec], partition_counts: Mapping[UUID, int]
) -> dict[str, Assignment]:
    """The target assignment of each member."""
    ordered = sorted(members, key=lambda m: m.member_id)
    first = ordered[0].topics if ordered else frozenset()
    if all(m.topics is first or m.topics == first for m in ordered):
        return _assign_homogeneously(ordered, partition_counts)
    return assign_heterogeneously(ordered, partition_counts)


def _assign_homogeneously(
    members: Sequence[MemberSpec], partition_counts: Mapping[UUID, int]
) -> dict[str, Assignment]:
    if not members:
        return {}
    kept, free = kept_partitions(members, partition_counts)
    quotas = _quotas([sum(map(len, each.values())) for each in kept], len(free))
    assigned: list[dict[UUID, frozenset[int]]] = []
    for mine, quota in zip(kept, quotas, strict=True):
        fits: dict[UUID, frozenset[int]] = {}
        for topic, partitions in mine.items():
            if len(partitions) > quota:
                free += [(topic, partition) for partition in partitions[quota:]]
                partitions = partitions[:quota]
            if partitions:
                fits[topic] = frozenset(partitions)
                quota -= len(partitions)
        assigned.append(fits)
    at = 0
    for fits, quota in zip(assigned, quotas, strict=True):
        lacks = quota - sum(map(len, fits.values()))
        given: dict[UUID, list[int]] = {}
        for topic, partition in free[at : at + lacks]:
            given.setdefault(topic, []).append(partition)
        at += lacks
        for topic, partitions in given.items():
            fits[topic] = fits.get(topic, frozenset()) | frozenset(partitions)
    return {m.member_id: fits for m, fits in zip(members, assigned, strict=True)}


def _quotas(loads: Sequence[int], free: int) -> list[int]:
    """How many partitions each member gets. Who has more than the least share keeps one more."""
    least, extra = divmod(sum(loads) + free, len(loads))
    first = [at for at, load in enumerate(loads) if load > least]
    then = [at for at, load in enumerate(loads) if load <= least]
    quotas = [least] * len(loads)
    for at in (first + then)[:extra]:
        quotas[at] += 1
    return quotas
