"""Members of a group in a client program: what they own, and what is recorded."""

import base64
from collections.abc import Collection
from typing import Any

import pytest

from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.program.protocol import (
    Assigned,
    Event,
    Failure,
    Lost,
    Revoked,
)
from harness.workloads.further.program.subscribed import Subscribed
from nodes.ids import TopicPartition
from tests.support.clients.recorded import CODEC, Recorded
from tests.support.clients.scripted_program import DEFINITE, FENCED, RETRY, ScriptedProgram

LOAD = base64.b64encode(CODEC.encode(1, 1)).decode()
ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
ASSIGNED = Assigned(client=1, positions={0: 5, 1: 0}, generation=3)


def member(*events: Event) -> tuple[Subscribed, ScriptedProgram, Recorded]:
    """A member that commits offset 9 of what it gives up, after a poll with these events."""
    program, seen = ScriptedProgram(), Recorded()
    program.answer("group-metadata", *[{"generation": 4, "metadata": "m"}] * 9)
    running: Any = program

    def before_revocation(partitions: Collection[TopicPartition]) -> None:
        made.commit(dict.fromkeys(partitions, 9))

    made = Subscribed(
        running, {}, seen.member_reads(), seen.membership(), before_revocation=before_revocation
    )
    program.before("poll", *events)
    made.take(10, 0.0)
    return made, program, seen


def test_records_move_the_positions_and_are_recorded_when_the_member_says_so() -> None:
    """Records of partitions that the member does not own do not count."""
    made, program, seen = member(ASSIGNED)
    program.answer("poll", {"records": [[0, 5, None, LOAD], [0, 6, None, LOAD], [2, 1, 0, LOAD]]})
    taken = made.take(10, 0.0)
    assert made.positions == {ONE: 7, OTHER: 0}
    assert seen.writer.of("poll", "offset") == []
    made.record(taken)
    assert seen.writer.of("poll", "offset", "generation") == [(5, 3), (6, 3)]
    assert seen.writer.of("assigned", "partition", "offset", "generation") == [(0, 5, 3), (1, 0, 3)]


def test_member_commits_before_it_gives_partitions_up() -> None:
    """`resume` comes after the rows, so that no other member can have been assigned before."""
    made, program, seen = member(ASSIGNED, Revoked(client=1, partitions=[1, 7]))
    assert program.commands()[-3:] == ["group-metadata", "commit", "resume"]
    assert program.asked[-2][1] == {"topic": "t", "offsets": {1: 9}}
    assert seen.writer.of("offset-commit", "partition", "offset", "type") == [(1, 9, "ok")]
    assert seen.writer.of("revoked", "partition") == [(1,)]
    assert made.positions == {ONE: 5}


def test_lost_partitions_are_not_committed() -> None:
    """Another member may have them already."""
    made, program, seen = member(ASSIGNED, Lost(client=1, partitions=[0, 1]))
    assert "commit" not in program.commands()
    assert (made.positions, seen.writer.of("lost", "partition")) == ({}, [(0,), (1,)])


def test_member_without_a_position_is_over() -> None:
    """What it read could not be judged."""
    made, _, _ = member(Assigned(client=1, positions={0: 5, 1: None}, generation=3))
    assert made.over
    assert made.positions == {ONE: 5}


@pytest.mark.parametrize(("failure", "over"), [(RETRY, False), (FENCED, True)])
def test_failed_poll_is_repeated_if_it_can_be(failure: Failure, over: bool) -> None:
    """The positions stay."""
    made, program, _ = member(ASSIGNED)
    program.answer("poll", failure)
    assert made.take(10, 0.0) == []
    assert (made.over, made.positions) == (over, {ONE: 5, OTHER: 0})


OUT_OF_RANGE = Failure(name="OFFSET_OUT_OF_RANGE", code=1, then="retry", partitions=(0,))


@pytest.mark.parametrize(
    ("bounds", "over", "position"),
    [
        ({"beginning": 8, "end": 9}, False, 8),
        ({"beginning": 0, "end": 3}, True, 5),
        (RETRY, True, 5),
    ],
)
def test_member_goes_on_from_the_first_record_if_those_before_it_were_removed(
    bounds: Any, over: bool, position: int
) -> None:
    """Else a deposed leader may have answered: the next member begins at the committed offset."""
    made, program, seen = member(ASSIGNED)
    program.answer("poll", OUT_OF_RANGE)
    program.answer("offsets", bounds)
    assert made.take(10, 0.0) == []
    assert (made.over, made.positions[ONE]) == (over, position)
    jumps = seen.writer.of("assign", "partition", "offset", "error")[2:]
    assert jumps == ([] if over else [(0, 8, "OFFSET_OUT_OF_RANGE")])


@pytest.mark.parametrize(
    ("failure", "outcome", "over"),
    [
        (None, "ok", False),
        (RETRY, "info", True),
        (FENCED, "info", True),
        (DEFINITE, "fail", True),
        (Failure(name="REBALANCE_IN_PROGRESS", definite=True, then="retry"), "fail", False),
    ],
)
def test_member_whose_commit_may_still_arrive_is_over(
    failure: Failure | None, outcome: str, over: bool
) -> None:
    """A definite error that may be repeated ends nothing."""
    made, program, seen = member(ASSIGNED)
    program.answer("commit", failure)
    assert made.commit({ONE: 6}) == {ONE: Outcome(outcome)}
    assert made.over == over
    columns = ("partition", "offset", "type", "generation", "error")
    error = failure.name if failure else None
    assert seen.writer.of("offset-commit", *columns) == [(0, 6, outcome, 4, error)]


def test_member_goes_back_to_the_committed_offsets() -> None:
    """A partition without one begins at 0; without an answer the member stays where it is."""
    made, program, seen = member(ASSIGNED)
    program.answer("committed", {"offsets": {"0": 2, "1": None}}, RETRY)
    assert made.go_back()
    assert made.positions == {ONE: 2, OTHER: 0}
    assert program.asked[-1][1]["positions"] == {0: 2, 1: 0}
    assert seen.writer.of("assign", "partition", "offset")[-2:] == [(0, 2), (1, 0)]
    assert not made.go_back()


@pytest.mark.parametrize(("leave", "error"), [(True, None), (False, "the member vanished")])
def test_what_a_member_has_at_its_end_is_lost(leave: bool, error: str | None) -> None:
    """Of a member that leaves, the program writes of the revocation itself."""
    made, program, seen = member(ASSIGNED)
    made.close(leave=leave)
    assert program.asked[-1] == ("close", {"leave": leave})
    assert seen.writer.of("lost", "partition", "error") == [(0, error), (1, error)]
    assert seen.writer.of("end", "client") == [(1,)]


def test_member_that_cannot_be_made_is_over() -> None:
    """It does not subscribe."""
    program, seen = ScriptedProgram(), Recorded()
    program.answer("open-consumer", FENCED)
    running: Any = program
    made = Subscribed(
        running, {}, seen.member_reads(), seen.membership(), before_revocation=lambda _: None
    )
    assert made.over
    assert program.commands() == ["open-consumer"]


def test_metadata_and_generation_are_what_the_program_says() -> None:
    """Outside of a group it has no generation; then the last one is meant."""
    made, program, _ = member(ASSIGNED)
    assert (made.metadata, made.generation) == ("m", 4)
    program._answers["group-metadata"].clear()
    program.answer("group-metadata", RETRY)
    assert made.generation == 3


def test_member_of_two_topics_keeps_the_same_partition_of_both_apart() -> None:
    """Records and events name the topic; a command is about one."""
    program, seen = ScriptedProgram(), Recorded()
    program.answer("group-metadata", *[{"generation": 3}] * 9)
    running: Any = program
    made = Subscribed(
        running, {}, seen.member_reads("u"), seen.membership(), before_revocation=lambda _: None
    )
    assert program.asked[1] == ("subscribe", {"topics": ["t", "u"]})
    events = [
        Assigned(client=1, topic=topic, positions={0: offset}, generation=3)
        for topic, offset in (("t", 5), ("u", 7))
    ]
    program.before("poll", *events, Revoked(client=1, topic="t", partitions=[0]))
    program.answer("poll", {"records": [[0, 7, None, LOAD, "u"], [0, 5, None, LOAD, "t"]]})
    made.record(made.take(10, 0.0))
    there = TopicPartition("u", 0)
    assert made.positions == {there: 8}
    assert seen.writer.of("poll", "topic", "offset") == [("u", 7)]
    assert made.commit({there: 8, ONE: 6}) == {there: Outcome.OK, ONE: Outcome.OK}
    commits = [values for do, values in program.asked if do == "commit"]
    assert commits == [{"topic": "u", "offsets": {0: 8}}, {"topic": "t", "offsets": {0: 6}}]
