"""Members that use committed offsets as counters read them anew after they were fenced."""

import asyncio
import random
from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from harness.simulation.group_work import take_part
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.commits import Commits
from nodes.ids import TopicPartition

PLACE = TopicPartition("t", 0)
OWNED = frozenset({PLACE})


class FencedOnce:
    """A member whose second commit comes too late: meanwhile another one has counted on."""

    generation = 1

    def __init__(self, commits: Commits, stop: asyncio.Event) -> None:
        self.owned = OWNED
        self.sent: list[int] = []
        self._commits, self._stop = commits, stop
        self._committed = -1

    async def join(self) -> ErrorCode:
        return ErrorCode.none

    async def heartbeat(self) -> ErrorCode:
        return ErrorCode.none

    async def leave(self) -> ErrorCode:
        return ErrorCode.none

    async def committed(self) -> Mapping[TopicPartition, int]:
        return {PLACE: self._committed}

    async def commit(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, ErrorCode]:
        self.sent.append(offsets[PLACE])
        if len(self.sent) == 2:
            self._commits.acknowledge(0, offsets[PLACE])
            self._committed = offsets[PLACE]
            return {PLACE: ErrorCode.stale_member_epoch}
        if len(self.sent) == 3:
            self._stop.set()
        self._committed = offsets[PLACE]
        return {PLACE: ErrorCode.none}


def test_a_fenced_member_does_not_count_on_from_what_it_knew() -> None:
    """KIP-848 gives a partition back in the answer to the join."""
    broken: list[InvariantBroken] = []

    async def scenario() -> list[int]:
        commits, stop = Commits("g"), asyncio.Event()
        member = FencedOnce(commits, stop)
        await take_part(lambda: member, commits, random.Random(1), stop, broken.append)
        return member.sent

    assert asyncio.run(scenario()) == [0, 1, 2]
    assert not broken
