"""Leader epochs that differ from a log's batches, and wrong answers about their ends, are found."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.leader_epochs import (
    Answer,
    check_answer,
    check_table,
    end_of_epoch,
    epochs_between,
    watch_responses,
)
from harness.zoo.schedules.stage import MessageSchedule, Stage
from nodes.ids import Epoch, Offset, TopicPartition
from nodes.log.leader_epochs import LeaderEpochs

STARTS = [(1, 0), (3, 10), (4, 20)]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 30, [(1, 0), (3, 10), (4, 20)]),
        (0, 20, [(1, 0), (3, 10)]),
        (5, 30, [(1, 5), (3, 10), (4, 20)]),
        (10, 30, [(3, 10), (4, 20)]),
        (15, 30, [(3, 15), (4, 20)]),
        (30, 30, []),
    ],
)
def test_epochs_of_a_log_begin_at_its_start(
    start: int, end: int, expected: list[tuple[int, int]]
) -> None:
    """An epoch that ends before the log's start is gone, as in Kafka."""
    assert epochs_between(STARTS, start, end) == expected


@pytest.mark.parametrize("table", [STARTS, [*STARTS, (7, 30)]])
def test_table_with_one_epoch_after_the_last_record_is_true(table: list[tuple[int, int]]) -> None:
    """A leader's epoch begins at the log's end."""
    check_table("t-0: node 1", table, STARTS, 30)


@pytest.mark.parametrize(
    "table",
    [
        [],
        STARTS[1:],
        STARTS[:2],
        [(1, 0), (3, 11), (4, 20)],
        [(1, 0), (2, 10), (4, 20)],
        [*STARTS, (7, 31)],
        [*STARTS, (5, 30), (7, 30)],
        [*STARTS, (2, 30)],
    ],
    ids=[
        "empty",
        "first missing",
        "last missing",
        "wrong start",
        "wrong epoch",
        "beyond the end",
        "two without records",
        "epoch goes back",
    ],
)
def test_table_unlike_the_batches_breaks_epochs_match_batches(table: list[tuple[int, int]]) -> None:
    """Each difference alone."""
    with pytest.raises(InvariantBroken, match=r"^epochs-match-batches: t-0: node 1 "):
        check_table("t-0: node 1", table, STARTS, 30)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (0, (0, 0)),
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 20)),
        (4, (4, 30)),
        (5, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
def test_answer_is_the_largest_epoch_not_above_and_its_end(
    asked: int, expected: tuple[int, int]
) -> None:
    """As the log's own answer."""
    epochs = LeaderEpochs()
    for epoch, start in STARTS:
        epochs.assign(Epoch(epoch), Offset(start))
    assert end_of_epoch(asked, STARTS, 30) == expected
    assert epochs.end_offset_for(Epoch(asked), Offset(30)) == expected
    check_answer("t-0: node 1", Answer(asked, *expected, STARTS, 30))
    wrong = Answer(asked, expected[0], expected[1] + 1, STARTS, 30)
    with pytest.raises(InvariantBroken, match=r"^epoch-ends-are-true: t-0: node 1 "):
        check_answer("t-0: node 1", wrong)


async def _loses_an_epoch(stage: Stage) -> None:
    stage.replica(3).log._epochs._entries.clear()


async def _answers_wrongly(stage: Stage) -> None:
    log = stage.replica(2).log
    vars(log._epochs)["end_offset_for"] = lambda epoch, end_offset: (epoch, Offset(1))
    log.end_offset_for_epoch(Epoch(0))


async def _responds_wrongly(stage: Stage) -> None:
    broker = stage.checker(2)._node_created.broker
    assert broker is not None
    handler = broker._handlers.offsets
    vars(handler)["_epoch_end"] = lambda topic, part: {"leader_epoch": 0, "end_offset": 1}
    watch_responses(handler, stage.checker(2)._on_epoch_end)
    part = SimpleNamespace(partition=0, leader_epoch=0)
    request = SimpleNamespace(topics=[SimpleNamespace(topic="t", partitions=[part])])
    with suppress(AttributeError):  # this is no request that a response could be made for
        handler.offset_for_leader_epoch(request, None)  # type: ignore[arg-type]


BY_HAND: dict[str, tuple[Callable[[Stage], Awaitable[None]], str]] = {
    "table": (_loses_an_epoch, "epochs-match-batches"),
    "answer": (_answers_wrongly, "epoch-ends-are-true"),
    "response": (_responds_wrongly, "epoch-ends-are-true"),
}


def _run(tamper: Callable[[Stage], Awaitable[None]]) -> None:
    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4])
        await stage.send(count=3)
        await stage.await_replication()
        await tamper(stage)
        stage.client.leaders["t", 0] = 2
        await stage.client.send("t", 0, 1)
        await asyncio.sleep(0.1)

    Stage(MessageSchedule(play=play, settles_s=0), 1).run()


@pytest.mark.parametrize("what", BY_HAND)
def test_epochs_changed_by_hand_are_found(what: str) -> None:
    """At the next event that touches the log."""
    tamper, name = BY_HAND[what]
    with pytest.raises(InvariantBroken, match=f"^{name}: "):
        _run(tamper)


def test_only_answers_without_an_error_are_noted() -> None:
    """An error says nothing about an epoch."""
    rows = iter([{"error_code": 6}, {"leader_epoch": 3, "end_offset": 9}])
    handler: Any = SimpleNamespace(_epoch_end=lambda topic, part: next(rows))
    noted: list[tuple[object, ...]] = []
    watch_responses(handler, lambda *answer: noted.append(answer))
    for _ in range(2):
        handler._epoch_end("t", SimpleNamespace(partition=0, leader_epoch=4))
    assert noted == [(TopicPartition("t", 0), 4, 3, 9)]


async def _starts_on_a_damaged_disk(stage: Stage) -> None:
    stage.cluster.kill(3)
    stage.invariants.damaged(3)
    stage.cluster.start(3)
    await stage.until("node 3 follows", lambda: 3 in stage.invariants.node_checkers)
    checker = stage.checker(3)
    await stage.until("it has its replica", lambda: bool(checker.replica_checkers))
    await _loses_an_epoch(stage)


def test_log_on_a_damaged_disk_is_not_judged() -> None:
    """The fault may have changed the file of the epochs."""
    _run(_starts_on_a_damaged_disk)
