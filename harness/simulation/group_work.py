"""Members of consumer groups that come and go, and use the committed offsets as counters.

They are judged by `harness.simulation.invariants.commits`, and nothing of them is recorded.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.commits import NOTHING, Commits
from harness.workloads.clients.own.classic_member import ClassicMember
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.consumer_member import ConsumerMember
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.group_member import REJOIN, GroupSettings, Member
from nodes.ids import TopicPartition

LIFE_S: Final = (1.5, 6.0)
"""How long a member takes part before another one takes its place."""
PAUSE_S: Final = (0.05, 0.3)
SESSION_S: Final = 2.0
REBALANCE_S: Final = 3.0

MakeMember = Callable[[], Member]
Report = Callable[[InvariantBroken], None]


def make_member(
    cluster: Cluster, group: str, partitions: int, topic_id: UUID | None, instance_id: str | None
) -> Member:
    """Return a member of the classic protocol, or of KIP-848 if `topic_id` is given."""
    settings = GroupSettings(
        group=group,
        partitions={cluster.topic: partitions},
        session_s=SESSION_S,
        rebalance_s=REBALANCE_S,
        instance_id=instance_id,
    )
    if topic_id is None:
        return ClassicMember(cluster, settings)
    return ConsumerMember(cluster, settings, {topic_id: cluster.topic})


async def take_part(
    make: MakeMember, commits: Commits, rng: random.Random, stop: asyncio.Event, report: Report
) -> None:
    """Be one member after the other until `stop` is set."""
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        life = _Life(make(), commits, report)
        ends_s = loop.time() + rng.uniform(*LIFE_S)
        while not stop.is_set() and loop.time() < ends_s and not life.over:
            await life.step()
            await asyncio.sleep(rng.uniform(*PAUSE_S))
        if rng.random() < 0.5:  # others vanish, and the coordinator has to notice
            await life.leave()


class _Life:
    """One member: it joins, reads what is committed of its partitions, and counts on."""

    def __init__(self, member: Member, commits: Commits, report: Report) -> None:
        self.over = False
        """Set when a commit got no answer: it may arrive later, so this member must not go on."""
        self._member = member
        self._commits = commits
        self._report = report
        self._joined = False
        self._counters: dict[TopicPartition, int] = {}

    async def step(self) -> None:
        """Do the next thing that a member has to do, once."""
        member = self._member
        try:
            code = await (member.heartbeat() if self._joined else member.join())
        except Unavailable:
            return
        self._joined = code is ErrorCode.none
        if not self._joined:
            self._counters = {}
            return
        self._counters = {p: n for p, n in self._counters.items() if p in member.owned}
        try:
            await self._read()
        except Unavailable:
            return
        await self._count()

    async def _read(self) -> None:
        if self._member.owned <= self._counters.keys():
            return
        at_least = {p: self._commits.at_least(p.partition) for p in self._member.owned}
        found = await self._member.committed()
        for place, offset in found.items():
            try:
                self._commits.check(place.partition, offset, at_least[place])
            except InvariantBroken as broken:
                self._report(broken)
            self._counters.setdefault(place, offset)

    async def _count(self) -> None:
        offsets = {p: max(n, NOTHING) + 1 for p, n in self._counters.items()}
        if not offsets:
            return
        for place, offset in offsets.items():
            self._commits.try_next(place.partition, offset)
        try:
            results = await self._member.commit(offsets)
        except Unavailable:
            self.over = True
            return
        for place, code in results.items():
            if code is ErrorCode.none:
                self._commits.acknowledge(place.partition, offsets[place])
                self._counters[place] = offsets[place]
            elif code in REJOIN:
                self._joined = False

    async def leave(self) -> None:
        """Leave the group, if there is an answer."""
        try:
            await self._member.leave()
        except Unavailable:
            return
