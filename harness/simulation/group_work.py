"""Members of consumer groups that come and go, and use the committed offsets as counters.

With `repeats` a member of the classic protocol that has joined a later generation sends the last
commit of the earlier one again, as a network does that delivers it late. With `pauses` some members
are slow between a heartbeat and a commit.

They are judged by `harness.simulation.invariants.commits`, and nothing of them is recorded.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.commits import NOTHING, Commits
from harness.workloads.clients.own.classic_member import ClassicMember
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.consumer_member import ConsumerMember
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.group_member import (
    REJOIN,
    GroupOffsets,
    GroupSettings,
    Member,
)
from nodes.ids import TopicPartition

LIFE_S: Final = (1.5, 6.0)
"""How long a member takes part before another one takes its place."""
PAUSE_S: Final = (0.05, 0.3)
SLOW_S: Final = (0.1, 2.5)
"""How long a slow member works on what it read; its session may end meanwhile."""
SLOW_SHARE: Final = 0.3
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
    make: MakeMember,
    commits: Commits,
    rng: random.Random,
    stop: asyncio.Event,
    report: Report,
    *,
    repeats: bool = False,
    pauses: bool = False,
) -> None:
    """Be one member after the other until `stop` is set."""
    loop = asyncio.get_running_loop()
    slow_rng = rng if pauses else None
    while not stop.is_set():
        life = _Life(make(), commits, report, repeats=repeats, slow_rng=slow_rng)
        ends_s = loop.time() + rng.uniform(*LIFE_S)
        while not stop.is_set() and loop.time() < ends_s and not life.over:
            await life.step()
            await asyncio.sleep(rng.uniform(*PAUSE_S))
        if rng.random() < 0.5:  # others vanish, and the coordinator has to notice
            await life.leave()


class _Sent(NamedTuple):
    """A commit."""

    generation: int
    offsets: Mapping[TopicPartition, int]


class _Life:
    """One member: it joins, reads what is committed of its partitions, and counts on."""

    def __init__(
        self,
        member: Member,
        commits: Commits,
        report: Report,
        *,
        repeats: bool,
        slow_rng: random.Random | None,
    ) -> None:
        self.over = False
        """Set when a commit got no answer: it may arrive later, so this member must not go on."""
        self._member = member
        self._commits = commits
        self._report = report
        self._joined = False
        self._counters: dict[TopicPartition, int] = {}
        self._repeats = repeats
        self._slow_rng = slow_rng
        self._last: _Sent | None = None

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
            await self._repeat()
            await self._read()
        except Unavailable:
            return
        if self._slow_rng is not None and self._slow_rng.random() < SLOW_SHARE:
            await asyncio.sleep(self._slow_rng.uniform(*SLOW_S))
        await self._count()

    async def _repeat(self) -> None:
        """Send the last commit of an earlier generation again."""
        last, member = self._last, self._member
        present = member.generation
        if last is None or last.generation >= present or not isinstance(member, ClassicMember):
            return
        self._last = None
        offsets = GroupOffsets(member.settings, member.coordinator)
        codes = await offsets.commit(last.offsets, member.member_id, last.generation)
        with self._reported():
            self._commits.repeated(last.generation, present, codes.values())

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except InvariantBroken as broken:
            self._report(broken)

    async def _read(self) -> None:
        if self._member.owned <= self._counters.keys():
            return
        at_least = {p: self._commits.at_least(p.partition) for p in self._member.owned}
        found = await self._member.committed()
        for place, offset in found.items():
            with self._reported():
                self._commits.check(place.partition, offset, at_least[place])
            self._counters.setdefault(place, offset)

    async def _count(self) -> None:
        offsets = {p: max(n, NOTHING) + 1 for p, n in self._counters.items()}
        if not offsets:
            return
        for place, offset in offsets.items():
            self._commits.try_next(place.partition, offset)
        if self._repeats:
            self._last = _Sent(self._member.generation, offsets)
        try:
            results = await self._member.commit(offsets)
        except Unavailable:
            self.over = True
            return
        for place, code in results.items():
            if code is ErrorCode.none:
                with self._reported():
                    self._commits.acknowledge(place.partition, offsets[place])
                self._counters[place] = offsets[place]
            elif code in REJOIN:
                self._joined = False
        if not self._joined:
            self._counters = {}  # until it joins again, another member may count on

    async def leave(self) -> None:
        """Leave the group, if there is an answer."""
        try:
            await self._member.leave()
        except Unavailable:
            return
