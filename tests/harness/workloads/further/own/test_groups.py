"""What a member of a group does with its records, at most once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.own.subscribed import Subscribed, Taken
from harness.workloads.clients.reads import Read
from harness.workloads.further.own.groups import _Reader
from nodes.ids import TopicPartition

PLACE = TopicPartition("topic", 0)
AT_A_TIME = 2


@dataclass
class Script:
    """A member whose second commit is refused. answered: whether it is told then where to go back
    to."""

    answered: bool
    over: bool = False
    position: int = 0
    commits: list[int] = field(default_factory=list)
    got: list[int] = field(default_factory=list)

    def take(self, _count: int) -> list[Taken]:
        first = self.position
        self.position += AT_A_TIME
        return [Taken("topic", Read(0, n, 0, b""), 0, 1) for n in range(first, self.position)]

    async def commit(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Outcome]:
        self.commits.append(offsets[PLACE])
        return {PLACE: Outcome.FAIL if len(self.commits) == 2 else Outcome.OK}

    def record(self, taken: Sequence[Taken]) -> None:
        self.got += [each.read.offset for each in taken]

    async def go_back(self) -> bool:
        if self.answered:
            self.position = self.commits[0]
        return self.answered


@pytest.mark.parametrize(
    ("answered", "commits", "got"),
    [(True, [2, 4, 4], [0, 1, 2, 3]), (False, [2, 4], [0, 1])],
    ids=["goes back", "is over"],
)
def test_no_commit_passes_records_that_were_not_got(
    answered: bool, commits: list[int], got: list[int]
) -> None:
    """After a refused commit a member goes back, or ends if it does not know where to."""
    script = Script(answered)
    reader = _Reader(at_most_once=True)
    reader.subscribed = cast("Subscribed", script)

    async def read() -> None:
        while not script.over and len(script.commits) < 3:
            await reader.read()

    asyncio.run(read())
    assert (script.commits, script.got) == (commits, got)
    assert script.over is not answered
