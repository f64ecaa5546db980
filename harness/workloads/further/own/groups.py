"""Members of a consumer group that read topics, with our own client.

At least once: the member gets records, and commits its positions from time to time and before it
gives a partition up. At most once: it commits the position behind some records, and gets them only
if the commit was acknowledged.
"""

import asyncio
import random
from collections.abc import Collection, Mapping
from typing import Final

from harness.plans.workloads import GroupWorkload
from harness.recording.history import OperationWriter
from harness.workloads.client_histories import FurtherHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.own.subscribed import Subscribed
from harness.workloads.environment import ClientEnvironment
from harness.workloads.further.own.members import Members
from harness.workloads.further.rules import COMMIT_S, READ_AT_A_TIME, leaves, positions_behind
from harness.workloads.further_config import FurtherConfig
from nodes.ids import TopicPartition

WAIT_S: Final = 0.1
NOTHING_WRITTEN: Final = 64
"""Members write nothing, so the size of a payload does not matter."""


async def run_group(
    config: FurtherConfig,
    wanted: GroupWorkload,
    writer: OperationWriter,
    world: ClientEnvironment,
    stop: asyncio.Event,
    tallies: list[Tally],
) -> None:
    """Run the members of the group; see `run.run_further`."""
    members = Members(
        config=config,
        wanted=wanted,
        histories=FurtherHistories(config, writer, NOTHING_WRITTEN),
        world=world,
        stop=stop,
    )
    async with asyncio.TaskGroup() as group:
        for index in range(wanted.members):
            tally = Tally()
            tallies.append(tally)
            group.create_task(_in_turn(members, wanted, index, tally))


async def _in_turn(members: Members, wanted: GroupWorkload, index: int, tally: Tally) -> None:
    """Be one member after the other until the stop."""
    rng = random.Random(members.world.rng.getrandbits(64))
    while not members.stop.is_set():
        client = members.histories.next_client()
        reader = _Reader(at_most_once=wanted.processing == "at-most-once")
        subscribed = await members.subscribe(client, index, tally, reader.before_revocation)
        if subscribed is None:
            return
        reader.subscribed, end_s = subscribed, members.end_s(client, rng)
        try:
            while members.goes_on(subscribed, end_s):
                await subscribed.step()
                await reader.read()
                await subscribed.progress.wait(WAIT_S)
        finally:
            await subscribed.close(leave=leaves(members.stop, rng) and not subscribed.over)


class _Reader:
    """What one member does with its records."""

    subscribed: Subscribed

    def __init__(self, *, at_most_once: bool) -> None:
        self._at_most_once = at_most_once
        self._committed: dict[TopicPartition, int] = {}
        self._due_s = 0.0

    async def read(self) -> None:
        """Take what is there, and commit when it is time."""
        subscribed = self.subscribed
        taken = subscribed.take(READ_AT_A_TIME)
        if not self._at_most_once:
            subscribed.record(taken)
            if asyncio.get_running_loop().time() >= self._due_s:
                self._due_s = asyncio.get_running_loop().time() + COMMIT_S
                await self._commit(subscribed.positions)
            return
        if not taken:
            return
        offsets = positions_behind(taken)
        results = await subscribed.commit(offsets)
        got = [each for each in taken if results[each.place] is Outcome.OK]
        subscribed.record(got)
        if len(got) < len(taken) and not subscribed.over:
            # Its positions are behind records that nobody got, and the next commit would pass them.
            subscribed.over = not await subscribed.go_back()

    async def before_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Commit the positions of partitions that the member gives up."""
        if not self._at_most_once:
            positions = self.subscribed.positions
            await self._commit({p: positions[p] for p in partitions if p in positions})

    async def _commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit the positions that have changed."""
        offsets = {p: n for p, n in positions.items() if self._committed.get(p) != n and n > 0}
        if offsets:
            results = await self.subscribed.commit(offsets)
            self._committed |= {p: offsets[p] for p, r in results.items() if r is Outcome.OK}
