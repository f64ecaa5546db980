"""Committed offsets that go back or come from nowhere are found; all others are not."""

import pytest
from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.commits import NOTHING, Commits


@pytest.fixture
def commits() -> Commits:
    """Two commits to partition 0: one acknowledged, one without an answer."""
    made = Commits("g")
    made.try_next(0, 5)
    made.acknowledge(0, 5)
    made.try_next(0, 6)
    return made


@pytest.mark.parametrize("offset", [5, 6])
def test_what_may_have_been_committed_is_sound(commits: Commits, offset: int) -> None:
    """A commit without an answer may count or not."""
    commits.check(0, offset, commits.at_least(0))
    commits.check(1, NOTHING, commits.at_least(1))


def test_a_read_is_judged_by_what_was_acknowledged_before_it_began(commits: Commits) -> None:
    """A commit may be acknowledged while the read is under way."""
    before = commits.at_least(0)
    commits.acknowledge(0, 6)
    commits.check(0, 5, before)
    with pytest.raises(InvariantBroken, match="6 was acknowledged before"):
        commits.check(0, 5, commits.at_least(0))


@pytest.mark.parametrize(
    ("partition", "offset", "match"),
    [
        (0, 4, "5 was acknowledged before"),
        (0, NOTHING, "5 was acknowledged before"),
        (0, 7, "no member committed more than 6"),
        (1, 0, "no member committed more than -1"),
    ],
)
def test_lost_and_invented_commits_are_found(
    commits: Commits, partition: int, offset: int, match: str
) -> None:
    """An offset below what was acknowledged, or above what was ever sent."""
    with pytest.raises(InvariantBroken, match=match):
        commits.check(partition, offset, commits.at_least(partition))


def test_an_offset_that_two_commits_acknowledge_is_found(commits: Commits) -> None:
    """The first one was lost, or two members had the partition."""
    commits.acknowledge(1, 5)
    with pytest.raises(InvariantBroken, match="as another one was before"):
        commits.acknowledge(0, 5)


def test_a_commit_of_an_earlier_generation_must_be_refused(commits: Commits) -> None:
    """Whatever the reason is, and whichever partition it is about."""
    commits.repeated(3, 4, [ErrorCode.illegal_generation, ErrorCode.unknown_member_id])
    with pytest.raises(InvariantBroken, match="generation 3 is accepted in generation 4"):
        commits.repeated(3, 4, [ErrorCode.illegal_generation, ErrorCode.none])
