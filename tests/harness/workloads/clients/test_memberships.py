"""The rows of a member of a consumer group."""

from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.reads import Read
from nodes.ids import TopicPartition
from tests.support.clients.recorded import CODEC, Recorded

ONE = TopicPartition("t", 1)
OTHER = TopicPartition("u", 1)
"""The same number in another topic."""
LAST = TopicPartition("u", 2)


def test_each_partition_of_an_assignment_has_a_row_with_its_position() -> None:
    """The rows are one operation."""
    seen = Recorded()
    seen.membership().assigned({ONE: 10, OTHER: 0}, 5, 1)
    columns = ("client", "group", "generation", "topic", "partition", "offset", "invoke_ns")
    assert seen.writer.of("assigned", *columns) == [
        (1, "g", 5, "t", 1, 10, 1),
        (1, "g", 5, "u", 1, 0, 1),
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
    member.revoked({OTHER, ONE}, 5)
    member.lost({OTHER}, 6)
    columns = ("topic", "partition", "generation")
    assert seen.writer.of("revoked", *columns) == [("t", 1, 5), ("u", 1, 5)]
    assert seen.writer.of("lost", *columns) == [("u", 1, 6)]


def test_each_partition_of_a_commit_has_its_own_outcome() -> None:
    """A commit of unknown outcome has no end: it may happen later."""
    seen = Recorded()
    results = {
        ONE: (Outcome.OK, None),
        OTHER: (Outcome.FAIL, "ILLEGAL_GENERATION"),
        LAST: (Outcome.INFO, "RequestTimedOut"),
    }
    seen.membership().committed({ONE: 1, OTHER: 2, LAST: 3}, 5, 1, results)
    columns = ("type", "topic", "partition", "offset", "generation", "error", "invoke_ns")
    assert seen.writer.of("offset-commit", *columns) == [
        ("ok", "t", 1, 1, 5, None, 1),
        ("fail", "u", 1, 2, 5, "ILLEGAL_GENERATION", 1),
        ("info", "u", 2, 3, 5, "RequestTimedOut", 1),
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


def test_member_of_two_topics_keeps_the_same_partition_of_both_apart() -> None:
    """The positions of one topic say nothing of the other: its poll is not one that went back."""
    seen = Recorded()
    reads = seen.member_reads("u")
    reads.open()
    reads.generation = 3
    reads.moved({ONE: 5, OTHER: 7}, 1)
    first, second = Read(1, 5, 0, CODEC.encode(1, 1)), Read(1, 7, 0, CODEC.encode(1, 2))
    reads.polled([("t", first), ("u", second), ("u", second._replace(offset=8))], 10, node=2)
    assert seen.writer.of("assign", "topic", "partition", "offset") == [("t", 1, 5), ("u", 1, 7)]
    polls = seen.writer.of("poll", "topic", "partition", "offset", "generation", "node")
    assert polls == [("t", 1, 5, 3, 2), ("u", 1, 7, 3, 2), ("u", 1, 8, 3, 2)]
    assert len(set(seen.writer.of("poll", "op"))) == 2
    reads.close()
    assert [len(seen.writer.of(each, "client")) for each in ("start", "end")] == [1, 1]
