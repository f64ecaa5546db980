"""Uniform assignment to members that subscribe to different topics.

The result cannot be made more even: there is no chain of moves, each of one partition from a
member to another subscriber of its topic, that leads from a member to one with two or more
partitions less. (Such an assignment is an optimal semi-matching; Harvey et al., 2003.)

Only numbers of partitions are moved. Which partitions those are is decided at the end, so that
each member keeps as many of its old ones as its numbers allow.
"""

import heapq
from collections.abc import Mapping, Sequence
from uuid import UUID

from nodes.coordinators.groups.consumer.assignors.kept import kept_partitions
from nodes.coordinators.groups.consumer.assignors.spec import Assignment, MemberSpec


def assign_heterogeneously(
    members: Sequence[MemberSpec], partition_counts: Mapping[UUID, int]
) -> dict[str, Assignment]:
    """The target assignment of each member; `members` are in order."""
    kept, free = kept_partitions(members, partition_counts)
    topics = sorted(frozenset[UUID]().union(*(m.topics for m in members)) & partition_counts.keys())
    place = {topic.int: at for at, topic in enumerate(topics)}  # the hash of a UUID is slow
    exists = frozenset(topics)
    pools: list[list[int]] = [[] for _ in topics]
    for topic, partition in free:
        pools[place[topic.int]].append(partition)
    balance = _Balance(
        [sorted(place[topic.int] for topic in m.topics & exists) for m in members],
        [{place[topic.int]: len(mine) for topic, mine in each.items()} for each in kept],
        len(topics),
    )
    for at in sorted(range(len(topics)), key=lambda t: (len(balance.subscribers[t]), t)):
        balance.give(at, len(pools[at]))
    balance.even_out()
    result: list[dict[UUID, frozenset[int]]] = [{} for _ in members]
    for at, topic in enumerate(topics):
        holders = [m for m in balance.subscribers[at] if balance.counts[m].get(at)]
        mine = {m: kept[m].get(topic, []) for m in balance.subscribers[at]}
        for member, partitions in mine.items():
            pools[at] += partitions[balance.counts[member].get(at, 0) :]
        pool = iter(pools[at])
        for member in holders:
            count = balance.counts[member][at]
            partitions = mine[member][:count]
            partitions += [next(pool) for _ in range(count - len(partitions))]
            result[member][topic] = frozenset(partitions)
    return {m.member_id: mine for m, mine in zip(members, result, strict=True)}


class _Balance:
    """How many partitions of which topic each member has; members and topics by their places."""

    def __init__(
        self,
        subscriptions: Sequence[Sequence[int]],
        kept: Sequence[Mapping[int, int]],
        topics: int,
    ) -> None:
        self.counts = [dict(each) for each in kept]
        self.subscribers: list[list[int]] = [[] for _ in range(topics)]
        self._kept = kept
        self._loads = [sum(each.values()) for each in kept]
        for at, subscribed in enumerate(subscriptions):
            for topic in subscribed:
                self.subscribers[topic].append(at)

    def give(self, topic: int, number: int) -> None:
        """Give partitions, each to the subscriber that has the fewest."""
        heap = [(self._loads[at], at) for at in self.subscribers[topic]]
        heapq.heapify(heap)
        for _ in range(number):
            load, at = heap[0]
            heapq.heapreplace(heap, (load + 1, at))
            self._loads[at] += 1
            self.counts[at][topic] = self.counts[at].get(topic, 0) + 1

    def even_out(self) -> None:
        """Move partitions along chains until no chain makes the loads more even.

        It ends: each chain lowers the sum of the squares of the loads.
        """
        moved = True
        while moved:
            moved = False
            settled: set[int] = set()
            for at in sorted(range(len(self._loads)), key=lambda m: (-self._loads[m], m)):
                while at not in settled and self._shift(at, settled):
                    moved = True

    def _shift(self, start: int, settled: set[int]) -> bool:
        """Move one partition away from `start` along a chain, if that makes loads more even.

        If not, all members that chains lead to are settled: from none of them that has no more
        partitions than `start` does a chain lead to a member with two partitions less.
        """
        came: dict[int, tuple[int, int] | None] = {start: None}
        seen: set[int] = set()
        queue = [start]
        end = start
        for giver in queue:
            for topic in self._topics_of(giver):
                if topic in seen:
                    continue
                seen.add(topic)
                for taker in self.subscribers[topic]:
                    if taker not in came and taker not in settled:
                        came[taker] = (giver, topic)
                        queue.append(taker)
                        if self._loads[taker] < self._loads[end]:
                            end = taker
            if self._loads[end] <= self._loads[start] - 2:
                self._move(came, end)
                return True
        settled.update(came)
        return False

    def _topics_of(self, at: int) -> list[int]:
        """Topics of which a member has partitions; first those of which it has more than before."""
        kept = self._kept[at]
        held = [(n <= kept.get(topic, 0), topic) for topic, n in self.counts[at].items() if n]
        return [topic for _, topic in sorted(held)]

    def _move(self, came: Mapping[int, tuple[int, int] | None], end: int) -> None:
        step = came[end]
        self._loads[end] += 1
        taker = end
        while step is not None:
            giver, topic = step
            self.counts[giver][topic] -= 1
            self.counts[taker][topic] = self.counts[taker].get(topic, 0) + 1
            taker, step = giver, came[giver]
        self._loads[taker] -= 1
