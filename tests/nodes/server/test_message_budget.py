"""The work for one acks=all message and for one commit has upper bounds, in counts.

A busy machine cannot change them. `python -m tests.tools.message_budget` prints the counts,
docs/performance.md explains them. A change that needs less lowers the bounds. A change that needs
more says why in its commit message.
"""

from collections.abc import Mapping

import pytest

from tests.support.simulation.message_work import (
    APPENDS,
    CALLS,
    EVENTS,
    FOLLOWER,
    LEADER,
    LOOKUPS,
    MEMORY,
    PREADS,
    READS,
    WRITES,
    MessageWork,
    commit_work,
    message_copies,
    message_work,
)

LEADER_BOUNDS = {
    EVENTS: 6,
    READS: 3,
    WRITES: 3,
    APPENDS: 1,
    PREADS: 2,
    LOOKUPS: 4,
    CALLS: 960,
    MEMORY: 22_000,
}
FOLLOWER_BOUNDS = {
    EVENTS: 2,
    READS: 1,
    WRITES: 1,
    APPENDS: 1,
    PREADS: 0,
    LOOKUPS: 0,
    CALLS: 280,
    MEMORY: 5_000,
}
COMMIT_BOUNDS = {
    EVENTS: 7,
    READS: 3,
    WRITES: 3,
    APPENDS: 1,
    PREADS: 2,
    LOOKUPS: 2,
    CALLS: 1_400,
    MEMORY: 25_500,
}
COPIES = {
    (LEADER, "FrameBuffer.feed"): 1.0,
    (LEADER, "decode_request"): 1.0,
    (LEADER, "Log._append"): 1.0,
    (FOLLOWER, "FrameBuffer.feed"): 1.0,
    (FOLLOWER, "decode_response"): 1.0,
}


@pytest.fixture(scope="module")
def work() -> MessageWork:
    """The work for a message of 1,000 bytes."""
    return message_work()


def over(counts: Mapping[str, int], bounds: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The counts above their bounds."""
    return {what: (counts[what], most) for what, most in bounds.items() if counts[what] > most}


def test_leader_does_no_more_for_a_message_than_its_budget(work: MessageWork) -> None:
    assert not over(work.leader, LEADER_BOUNDS)


def test_follower_does_no_more_for_a_message_than_its_budget(work: MessageWork) -> None:
    assert not over(work.follower, FOLLOWER_BOUNDS)


def test_commit_of_ten_partitions_needs_no_more_than_its_budget() -> None:
    """The coordinator, and the follower with the larger number: a commit is one batch to it."""
    found = commit_work(partitions=10)
    assert not over(found.leader, COMMIT_BOUNDS)
    assert not over(found.follower, FOLLOWER_BOUNDS)


def test_counts_are_equal_in_every_run(work: MessageWork) -> None:
    again = message_work()
    assert again.events == work.events
    for first, second in ((work.leader, again.leader), (work.follower, again.follower)):
        assert {**first, MEMORY: 0} == {**second, MEMORY: 0}
        assert abs(first[MEMORY] - second[MEMORY]) < 500


@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_large_message_is_copied_no_more_often_than_its_budget(size: int) -> None:
    """A message that one read of a socket brings, and one that needs several."""
    found = message_copies(size=size)
    assert {key: times for key, times in found.items() if times > COPIES.get(key, 0.0)} == {}
