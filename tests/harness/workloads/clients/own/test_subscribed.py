"""A member of our own client whose position a broker does not have."""

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.history.history import HISTORY
from harness.workloads.clients.own.consumer import OUT_OF_RANGE, TRUNCATED, ConsumerSettings
from harness.workloads.clients.own.subscribed import Subscribed, Taken
from harness.workloads.clients.reads import Read
from nodes.ids import TopicPartition
from tests.support.clients.recorded import Recorded

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("u", 0)


async def nothing(partitions: Collection[TopicPartition]) -> None:
    """Commit nothing."""


def member(seen: Recorded) -> Subscribed:
    """A member that has taken the records below 118 of both topics, and has fetched one more."""
    nobody: Any = None
    view: Any = SimpleNamespace(on_change=None)
    made = Subscribed(
        nobody,
        {"t": view, "u": view},
        ConsumerSettings(),
        seen.member_reads("u"),
        seen.membership(),
        heartbeat_s=1.0,
        before_revocation=nothing,
    )
    made.positions = {PLACE: 118, OTHER: 118}
    made.arrived([Taken(place.topic, Read(0, 118, 0, None), 1, 1) for place in (PLACE, OTHER)])
    return made


async def jumped(seen: Recorded, offset: int, reason: str) -> Subscribed:
    """The member after its consumer of one topic went elsewhere."""
    made = member(seen)
    made.jumped(PLACE, offset, 1, reason)
    return made


@pytest.mark.parametrize(
    ("offset", "reason", "over"),
    [(0, OUT_OF_RANGE, True), (118, OUT_OF_RANGE, True), (60, TRUNCATED, False)],
)
def test_member_goes_back_only_in_a_log_that_was_truncated(
    offset: int, reason: str, over: bool
) -> None:
    """A deposed leader may have a shorter log, and the group has committed what it read."""
    seen = Recorded()
    made = asyncio.run(jumped(seen, offset, reason))
    assert (made.over, made.positions) == (over, {PLACE: 118 if over else offset, OTHER: 118})
    jumps = seen.writer.of("assign", "topic", "offset", "error")
    assert jumps == ([] if over else [("t", offset, reason)])
    assert {each.topic for each in made._waiting} == {"u"}


def test_member_goes_on_behind_records_that_were_removed() -> None:
    """Those before the first record are gone for everybody."""
    seen = Recorded()
    made = asyncio.run(jumped(seen, 200, OUT_OF_RANGE))
    assert (made.over, made.positions) == (False, {PLACE: 200, OTHER: 118})
    assert seen.writer.of("assign", "offset", "error") == [(200, OUT_OF_RANGE)]


@pytest.mark.parametrize("got", [0, 2])
def test_jump_is_behind_the_records_that_were_taken_before(got: int) -> None:
    """While a member commits what it took, its consumer goes on (seed 82263 of the swarm)."""
    seen = Recorded()

    async def run() -> None:
        made = member(seen)
        taken = made.take(9)
        made.jumped(PLACE, 200, 1, OUT_OF_RANGE)
        assert made.positions[PLACE] == 200
        made.arrived([Taken("t", Read(0, 200, 0, None), 1, 1)])
        made.record(taken[:got])
        made.record(made.take(9))

    asyncio.run(run())
    named = [dict(zip(HISTORY.names, row, strict=True)) for row in seen.writer.rows]
    rows = [(row["f"], row["offset"]) for row in named if row["topic"] == "t"]
    assert rows == [*[("poll", 118)] * (got > 0), ("assign", 200), ("poll", 200)]
