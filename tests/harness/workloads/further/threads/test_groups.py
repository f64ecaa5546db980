"""What a member of a group does with its records, at most once, in a client with threads."""

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.reads import Read
from harness.workloads.further.threads.groups import _Reader
from harness.workloads.further.threads.library import Subscribed, Taken
from nodes.ids import TopicPartition

PLACE = TopicPartition("topic", 0)


class Script:
    """A member that takes one record at a time. Its first commit is refused, and it may not be told
    then where to go back to."""

    def __init__(self, *, answered: bool) -> None:
        self.answered = answered
        self.over = False
        self.position = 0
        self.commits: list[int] = []
        self.got: list[int] = []

    def take(self, _count: int, _timeout_s: float) -> list[Taken]:
        self.position += 1
        return [Taken("topic", Read(0, self.position - 1, 0, b""), 0)]

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Outcome]:
        self.commits.append(offsets[PLACE])
        return {PLACE: Outcome.OK if len(self.commits) > 1 else Outcome.FAIL}

    def record(self, taken: Sequence[Taken]) -> None:
        self.got += [each.read.offset for each in taken]

    def go_back(self) -> bool:
        self.position = 0
        return self.answered


@pytest.mark.parametrize("answered", [True, False], ids=["goes back", "is over"])
def test_no_commit_passes_records_that_were_not_got(answered: bool) -> None:
    """After a refused commit a member goes back, or ends if it does not know where to."""
    script = Script(answered=answered)
    reader = _Reader(at_most_once=True)
    reader.subscribed = cast("Subscribed", script)
    while not script.over and len(script.commits) < 2:
        reader.read()
    assert script.over is not answered
    assert (script.commits, script.got) == (([1, 1], [0]) if answered else ([1], []))
