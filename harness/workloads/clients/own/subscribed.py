"""A member of a consumer group that reads what it is assigned, and records what it goes through.

It does everything in `step` and in the calls of its owner, between which it processes records. So
its owner always knows which partitions it has: a partition is given up only in `step`, and then the
owner may commit once more. Records wait in the member until the owner takes them.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from harness.workloads.clients.memberships import Membership
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.consumer import OUT_OF_RANGE, Consumer, ConsumerSettings
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.group_member import REJOIN, Member
from harness.workloads.clients.own.records import Fetched
from harness.workloads.clients.own.waiting import Signal
from harness.workloads.clients.reads import MemberReads, Read
from nodes.ids import TopicPartition

MAX_WAITING: Final = 2_000
"""With so many records that nobody has taken, the member fetches no more."""
KEPT: Final = frozenset({ErrorCode.rebalance_in_progress})
"""After this error the member still owns its partitions, and may commit their offsets."""
VANISHED: Final = "the member vanished"


class Taken(NamedTuple):
    """A record, and the fetch that read it."""

    topic: str
    read: Read
    invoke_ns: int
    node: int

    @property
    def place(self) -> TopicPartition:
        """The record's partition."""
        return TopicPartition(self.topic, self.read.partition)


class Subscribed:
    """See the module. `before_revocation` may commit; it gets the partitions that are given up.

    There is a consumer, and a view of the cluster, for each topic.
    """

    def __init__(
        self,
        member: Member,
        clusters: Mapping[str, Cluster],
        settings: ConsumerSettings,
        reads: MemberReads,
        membership: Membership,
        *,
        heartbeat_s: float,
        before_revocation: Callable[[Collection[TopicPartition]], Awaitable[None]],
    ) -> None:
        self.progress = Signal()
        """Set when there is something to take."""
        self.member = member
        self.over = False
        """Whether this member must not go on: a commit got no answer and may arrive later, a broker
        does not have its position, or the committed offsets that it has to go back to are not
        known."""
        self.positions: dict[TopicPartition, int] = {}
        """The next offset to take of each partition that the member owns."""
        self._reads = reads
        self._membership = membership
        self._heartbeat_s = heartbeat_s
        self._before_revocation = before_revocation
        self._joined = False
        self._due_s = 0.0
        self._waiting: deque[Taken] = deque()
        self._unrecorded = False
        """Whether the owner has taken records that it has not recorded."""
        self._jumps: list[Callable[[], None]] = []
        """What records the jumps since then: they are behind those records."""
        self._loop = asyncio.get_running_loop()
        self._consumers = {
            topic: Consumer(cluster, settings, {}, _TopicReader(topic, self), now_ns=reads.now_ns)
            for topic, cluster in clusters.items()
        }
        reads.open()

    # -- the group

    async def step(self) -> None:
        """Do the next thing that a member has to do, if one is due: join, or send a sign of life.

        Afterwards the member has the partitions that it was told to own.
        """
        if self._loop.time() < self._due_s:
            return
        self._due_s = self._loop.time() + self._heartbeat_s
        invoke_ns = self._reads.now_ns()
        member = self.member
        try:
            code = await (member.heartbeat() if self._joined else member.join())
            if self._joined and code in KEPT:
                await self._give_up(list(self.positions))
                self._joined, self._due_s = False, 0.0
                return
            if code is not ErrorCode.none:
                self._lose(code.name.upper())
                if code in REJOIN:
                    self._due_s = 0.0
                else:
                    self._reads.note(code.name.upper())
                return
            self._joined = True
            await self._own(invoke_ns)
        except Unavailable as error:
            self._reads.note(str(error))
            self._due_s = self._loop.time() + min(self._heartbeat_s, 0.1)

    async def _own(self, invoke_ns: int) -> None:
        """Give up and take over partitions, until the member has those that it was told to own.

        Raises Unavailable if the committed offsets are not known yet; the next step asks again.
        """
        member = self.member
        owned, generation = member.owned, member.generation
        if gone := [each for each in self.positions if each not in owned]:
            await self._give_up(gone)
        new = sorted(owned - self.positions.keys())
        if not new and generation == self._reads.generation:
            return
        committed = await member.committed() if new else {}
        self._reads.generation = generation
        positions = {place: max(committed[place], 0) for place in new}
        self._membership.assigned(positions, generation, invoke_ns)
        if new:
            self._reads.moved(positions, invoke_ns)
        self.positions |= positions
        for (topic, partition), offset in positions.items():
            self._consumers[topic].add(partition, offset)

    async def _give_up(self, partitions: Collection[TopicPartition]) -> None:
        await self._before_revocation(partitions)
        self._membership.revoked(partitions, self._reads.generation or 0)
        self._drop(partitions)

    def _lose(self, error: str | None = None) -> None:
        self._joined = False
        if self.positions:
            self._membership.lost(self.positions, self._reads.generation or 0, error=error)
        self._drop(list(self.positions))

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        for place in partitions:
            self.positions.pop(place, None)
            self._consumers[place.topic].drop(place.partition)
        self._waiting = deque(w for w in self._waiting if w.place in self.positions)
        self._fetch_on()

    async def close(self, *, leave: bool) -> None:
        """Leave the group, or vanish: then the coordinator has to notice."""
        if leave and self._joined:
            await self._give_up(list(self.positions))
            try:
                await self.member.leave()
            except Unavailable as error:
                self._reads.note(str(error))
        self._lose(VANISHED)
        self._reads.close()
        for consumer in self._consumers.values():
            await consumer.close()

    # -- records

    def take(self, count: int) -> Sequence[Taken]:
        """Remove up to `count` records, in their order, and move the positions behind them."""
        taken = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
        for each in taken:
            self.positions[each.place] = each.read.offset + 1
        self._unrecorded = bool(taken)
        self._fetch_on()
        return taken

    def record(self, taken: Sequence[Taken]) -> None:
        """Record which of the records last taken the group's member has got."""
        begin = 0
        for end in range(1, len(taken) + 1):
            if end == len(taken) or taken[end][2:] != taken[begin][2:]:
                invoke_ns, node = taken[begin][2:]
                records = [(each.topic, each.read) for each in taken[begin:end]]
                self._reads.polled(records, invoke_ns, node=node)
                begin = end
        self._unrecorded = False
        for jump in self._jumps:
            jump()
        self._jumps.clear()

    def _fetch_on(self) -> None:
        self._pause()
        for consumer in self._consumers.values():
            consumer.fetch_due()

    def _pause(self) -> None:
        for consumer in self._consumers.values():
            consumer.paused = len(self._waiting) >= MAX_WAITING

    # -- offsets

    async def commit(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Outcome]:
        """Commit offsets, and record the outcome of each partition."""
        invoke_ns, generation = self._reads.now_ns(), self.member.generation
        results: dict[TopicPartition, tuple[Outcome, str | None]]
        try:
            codes = await self.member.commit(offsets)
        except Unavailable as error:
            self.over = True
            results = dict.fromkeys(offsets, (Outcome.INFO, str(error)))
        else:
            results = {place: _result(codes.get(place)) for place in offsets}
            if any(codes.get(place) in REJOIN for place in offsets):
                self._due_s = 0.0  # the next heartbeat says what has changed
        self._membership.committed(offsets, generation, invoke_ns, results)
        return {place: outcome for place, (outcome, _) in results.items()}

    async def go_back(self) -> bool:
        """Go on from the committed offsets; return whether they are known."""
        invoke_ns = self._reads.now_ns()
        try:
            committed = await self.member.committed()
        except Unavailable as error:
            self._reads.note(str(error))
            return False
        positions = {p: max(committed.get(p, 0), 0) for p in self.positions}
        self._waiting.clear()
        for (topic, partition), offset in positions.items():
            self._consumers[topic].drop(partition)
            self._consumers[topic].add(partition, offset)
        self.positions = positions
        self._reads.moved(positions, invoke_ns)
        self._fetch_on()
        return True

    # -- as a reader

    def arrived(self, records: Sequence[Taken]) -> None:
        """Keep the records of a fetch until they are taken."""
        self._waiting += records
        self._pause()
        self.progress.set()

    def jumped(self, place: TopicPartition, offset: int, invoke_ns: int, reason: str) -> None:
        """Record that a consumer went on elsewhere, as an assignment with a reason: behind records
        that were removed, or back in a log that was truncated.

        An offset that is beyond the end says less: a deposed leader may have a shorter log. Then
        this member is over, and the next one asks for the committed offset.
        """
        read = [each.read.offset + 1 for each in self._waiting if each.place == place]
        back = offset < max(read, default=self.positions.get(place, offset))
        self._waiting = deque(each for each in self._waiting if each.place != place)
        if back and reason == OUT_OF_RANGE:
            self.over = True
            self._consumers[place.topic].drop(place.partition)
            return
        self.positions[place] = offset
        jump = partial(self._reads.moved, {place: offset}, invoke_ns, reason=reason)
        if self._unrecorded:
            self._jumps.append(jump)
        else:
            jump()

    def note(self, error: str) -> None:
        """Show an error among the counters."""
        self._reads.note(error)


class _TopicReader:
    """Takes what the consumer of one topic reads. Implements `consumer.Reader`."""

    def __init__(self, topic: str, member: Subscribed) -> None:
        self._topic = topic
        self._member = member

    def polled(self, invoke_ns: int, node: int, read: Sequence[tuple[int, Fetched]]) -> None:
        """Hand the records on."""
        self._member.arrived(
            [
                Taken(self._topic, Read(partition, *each[:3]), invoke_ns, node)
                for partition, got in read
                for each in got.records
            ]
        )

    def truncated(self, partition: int, reason: str) -> bool:
        """Go back, and read what the log has now."""
        self._member.note(reason)
        return True

    def moved(self, invoke_ns: int, partition: int, offset: int, reason: str) -> None:
        """See `Subscribed.jumped`."""
        self._member.jumped(TopicPartition(self._topic, partition), offset, invoke_ns, reason)

    def failed(self, partition: int, error: str) -> None:
        """Show the error among the counters."""
        self._member.note(error)


def _result(code: ErrorCode | None) -> tuple[Outcome, str | None]:
    """Return the outcome of a commit by the error of its partition (None: no answer)."""
    if code is None:
        return Outcome.INFO, "NO_ANSWER"
    return (Outcome.OK, None) if code is ErrorCode.none else (Outcome.FAIL, code.name.upper())
