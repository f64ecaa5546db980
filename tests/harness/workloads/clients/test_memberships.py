"""The rows of a member of a consumer group."""

from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.reads import Read
from tests.support.clients.recorded import CODEC, Recorded


def test_each_partition_of_an_assignment_has_a_row_with_its_position() -> None:
    """The rows are one operation."""
    seen = Recorded()
    seen.membership().assigned({0: 10, 2: 0}, 5, 1)
    columns = ("client", "group", "generation", "topic", "partition", "offset", "invoke_ns")
    assert seen.writer.of("assigned", *columns) == [
        (1, "g", 5, "t", 0, 10, 1),
        (1, "g", 5, "t", 2, 0, 1),
    ]
    assert len(set(seen.writer.of("assigned", "op"))) == 1


def test_empty_assignment_is_a_row_without_a_partition() -> None:
    """A member without partitions belongs to the generation, too."""
    seen = Recorded()
    seen.membership().assigned({}, 5, 1)
    columns = ("topic", "partition", "generation")
    assert seen.writer.of("assigned", *columns) == [(None, None, 5)]


def test_partitions_are_revoked_or_lost() -> None:
    """Lost ones may have another owner already."""
    seen = Recorded()
    member = seen.membership()
    member.revoked({2, 1}, 5)
    member.lost({0}, 6)
    columns = ("partition", "generation")
    assert seen.writer.of("revoked", *columns) == [(1, 5), (2, 5)]
    assert seen.writer.of("lost", *columns) == [(0, 6)]


def test_each_partition_of_a_commit_has_its_own_outcome() -> None:
    """A commit of unknown outcome has no end: it may happen later."""
    seen = Recorded()
    results = {
        0: (Outcome.OK, None),
        1: (Outcome.FAIL, "ILLEGAL_GENERATION"),
        2: (Outcome.INFO, "RequestTimedOut"),
    }
    seen.membership().committed({0: 1, 1: 2, 2: 3}, 5, 1, results)
    columns = ("type", "partition", "offset", "generation", "error", "invoke_ns")
    assert seen.writer.of("offset-commit", *columns) == [
        ("ok", 0, 1, 5, None, 1),
        ("fail", 1, 2, 5, "ILLEGAL_GENERATION", 1),
        ("info", 2, 3, 5, "RequestTimedOut", 1),
    ]
    ends = [end for (end,) in seen.writer.of("offset-commit", "complete_ns")]
    assert [end is not None for end in ends] == [True, True, False]
    assert seen.tally.last_error == "RequestTimedOut"


def test_polls_of_a_member_name_group_generation_and_isolation() -> None:
    """Other polls have none of them."""
    seen = Recorded()
    reads = seen.reads()
    columns = ("group", "generation", "isolation")
    reads.polled([Read(0, 5, 2, CODEC.encode(1, 1))], 10)
    reads.group, reads.generation, reads.isolation = "g", 3, 1
    reads.polled([Read(0, 6, 2, CODEC.encode(1, 2))], 10)
    assert seen.writer.of("poll", *columns) == [(None, None, None), ("g", 3, 1)]
