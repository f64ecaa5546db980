"""Groups of two topics, whose partitions have the same numbers: one says nothing of the other."""

from tests.support.histories.golden.base import F, golden
from tests.support.histories.story import ALL, NONE, ONE, Story, v

GROUP = "readers"
FIRST, SECOND = 41, 42
TOPICS = (ONE, ALL)


def _promise(s: Story) -> None:
    """The group must get every record, and the internal topic cannot lose its commits."""
    promised = {"kind": "group", "group": GROUP, "processing": "at-least-once"}
    s.plan["more_workloads"] = [{**promised, "topics": list(TOPICS)}]
    s.plan["broker"] = {"min.insync.replicas": "2"}
    for client in (FIRST, SECOND):
        s.row("start", client, 18)
        s.row("end", client, 61)


def _row(s: Story, f: str, client: int, at_s: float, topic: str, **columns: object) -> None:
    s.row(f, client, at_s, topic=topic, partition=0, group=GROUP, **columns)


def _get(s: Story, client: int, at_s: float, topic: str, *offsets: int) -> None:
    s.poll(topic, at_s, {o: v(topic, o + 1) for o in offsets}, client=client, group=GROUP)


def _whole(s: Story, client: int, topic: str, *, until: int, generation: int = 1) -> None:
    """A member gets one topic from the beginning, and commits what it got."""
    _row(s, "assigned", client, 19, topic, offset=0, generation=generation)
    _get(s, client, 20, topic, *range(until))
    _row(s, "offset-commit", client, 23, topic, offset=until, generation=generation)
    _row(s, "final-committed", client, 60, topic, offset=until)


@golden("INVALID", {("lost-commit", "final"): (F, 1)})
def commit_in_one_of_two_topics_is_lost(s: Story) -> None:
    """The coordinator has 5 for both: what was committed last in ALL, and in ONE before 7."""
    _promise(s)
    _whole(s, FIRST, ALL, until=5)
    _row(s, "assigned", FIRST, 19, ONE, offset=0, generation=1)
    _get(s, FIRST, 20, ONE, *range(7))
    for at_s, offset in ((21, 5), (22, 7)):
        _row(s, "offset-commit", FIRST, at_s, ONE, offset=offset, generation=1)
    _row(s, "final-committed", FIRST, 60, ONE, offset=5)


@golden("INVALID", {("skipped-record", None): (F, 2)}, because="skipped-record in one-0")
def record_of_one_of_two_topics_was_skipped(s: Story) -> None:
    """The group got the records at these offsets of the other topic."""
    _promise(s)
    _whole(s, FIRST, ALL, until=8)
    _row(s, "assigned", FIRST, 19, ONE, offset=0, generation=1)
    _get(s, FIRST, 20, ONE, 0, 1, 2)
    s.row("assign", FIRST, 21, topic=ONE, partition=0, offset=5)
    _get(s, FIRST, 22, ONE, 5, 6, 7)
    _row(s, "offset-commit", FIRST, 23, ONE, offset=8, generation=1)
    _row(s, "final-committed", FIRST, 60, ONE, offset=8)


@golden("INVALID", {("delivered-again", "below-commit"): (F, 1)})
def record_of_one_of_two_topics_was_delivered_again(s: Story) -> None:
    """The group went back in one topic below its commit, to where the commit of the other is."""
    _promise(s)
    _whole(s, FIRST, ALL, until=2)
    _row(s, "assigned", FIRST, 19, ONE, offset=0, generation=1)
    _get(s, FIRST, 20, ONE, 0, 1, 2)
    _row(s, "offset-commit", FIRST, 21, ONE, offset=3, generation=1)
    _row(s, "revoked", FIRST, 22, ONE, generation=1)
    _row(s, "assigned", SECOND, 24, ONE, offset=3, generation=2)
    s.row("assign", SECOND, 24.5, topic=ONE, partition=0, offset=2)
    _get(s, SECOND, 25, ONE, 2)
    _row(s, "final-committed", FIRST, 60, ONE, offset=3)


@golden("VALID")
def members_have_the_same_partition_of_two_topics(s: Story) -> None:
    """Near miss: at the same time two members own partition 0, each of another topic, and got
    other offsets of it. Each commits a position that the other has passed, in an older or in a
    newer generation."""
    _promise(s)
    _whole(s, FIRST, ONE, until=3, generation=1)
    _whole(s, SECOND, ALL, until=8, generation=2)
    _row(s, "offset-commit", FIRST, 24, ONE, offset=3, generation=1)


@golden("VALID")
def partition_of_one_topic_moves_back_and_that_of_the_other_does_not(s: Story) -> None:
    """Near miss: the second member begins in one topic below the commit of the other topic, and
    gets what the group got of the other topic already."""
    _promise(s)
    _whole(s, FIRST, ONE, until=8)
    _row(s, "revoked", FIRST, 24, ONE, generation=1)
    _row(s, "assigned", SECOND, 25, ALL, offset=0, generation=2)
    _get(s, SECOND, 26, ALL, *range(3))
    _row(s, "offset-commit", SECOND, 27, ALL, offset=3, generation=2)
    _row(s, "final-committed", SECOND, 60, ALL, offset=3)


def _copies(s: Story, *order: tuple[str, int]) -> None:
    """A group copies three records each of ONE and NONE to ALL, in this order, which is one
    partition, and commits both inputs."""
    _promise(s)
    promised = {"kind": "copy", "group": GROUP, "processing": "at-least-once"}
    s.plan["more_workloads"] = [{**promised, "inputs": [NONE, ONE], "output": ALL}]
    for topic in (NONE, ONE):
        _whole(s, FIRST, topic, until=3)
    for number, (topic, offset) in enumerate(order):
        copy = {"copies": v(topic, offset + 1), "group": GROUP}
        s.send(ALL, 50 + number, 20 + number, 22 + number / 100, **copy)
        s.read_in_the_end(ALL, 20 + number, v(ALL, 50 + number))


@golden("INVALID", {("copied-out-of-order", None): (F, 1)})
def records_of_one_of_two_inputs_were_copied_out_of_order(s: Story) -> None:
    """Those of the other input, between them, are in order."""
    _copies(s, (NONE, 0), (ONE, 0), (NONE, 2), (ONE, 1), (NONE, 1), (ONE, 2))


@golden("INVALID", {("uncopied", None): (F, 1)}, because="uncopied in one-0")
def record_of_one_of_two_inputs_was_not_copied(s: Story) -> None:
    """The record at its offset of the other input was."""
    _copies(s, (NONE, 0), (NONE, 1), (NONE, 2), (ONE, 0), (ONE, 2))


@golden("VALID")
def records_of_two_inputs_are_copied_in_the_order_of_each(s: Story) -> None:
    """Near miss: offsets go back from one copy to the next, where the input changes."""
    _copies(s, (NONE, 0), (NONE, 1), (ONE, 0), (NONE, 2), (ONE, 1), (ONE, 2))
