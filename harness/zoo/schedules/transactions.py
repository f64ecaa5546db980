"""Schedules about transactions: brokers 2, 3 and 4, controller 1. Readers of committed records
judge: they must see what was committed, nothing else, and no transaction may stay open.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from harness.systems.brokers import BROKER_PORT
from harness.workloads.clients.own.coordinator import TRANSACTION, Unavailable
from harness.workloads.clients.own.transactions import Fenced, Refused, TransactionalProducer
from harness.zoo.schedules.clients import (
    LATE,
    answered,
    connected,
    expect_committed,
    find_coordinator,
    hold,
    is_held,
    let_go,
)
from harness.zoo.schedules.load import make_topics
from harness.zoo.schedules.stage import TOPIC, ExpectationFailed, Stage, fetch_answers
from nemesis.hosts import CLIENTS, Cut
from nemesis.requests import APIS, RequestFilter

ID: Final = "tx"
TIMEOUT_S: Final = 60.0
NOW_MS: Final = 1
LATER_S: Final = 1.0
"""Enough for everything that a late request causes."""


async def _led_elsewhere(stage: Stage) -> tuple[int, int]:
    """Make the topic, with a leader that is not the coordinator; return the coordinator and the
    leader.
    """
    found = await find_coordinator(stage, TRANSACTION)
    leader, other = (node for node in stage.brokers if node != found)
    await stage.make_topic([leader, other, found])
    return found, leader


async def _refused(step: Awaitable[object]) -> bool:
    """Whether the step is refused, or the producer fenced; a step without an answer is not."""
    try:
        with suppress(Unavailable):
            await step
    except (Fenced, Refused):
        return True
    return False


async def late_end(stage: Stage) -> None:
    """The end of a transaction arrives twice: the first request only in the next transaction.

    The second one is sent by another connection; the first connection stays open.
    """
    await make_topics(stage.cluster, {TOPIC.topic: 1})
    async with connected(stage, 1) as cluster, connected(stage, 2, request_s=120.0) as slow:
        producer = TransactionalProducer(cluster, ID, TIMEOUT_S, second=True)
        await answered(producer.init)
        await answered(partial(producer.write, 0, [b"1"], NOW_MS))
        late = TransactionalProducer(slow, ID, TIMEOUT_S, second=True)
        late.producer_id, late.epoch = producer.producer_id, producer.epoch
        late._added[TOPIC.topic, 0] = None
        hold(stage, RequestFilter(APIS["EndTxn"], name=ID))
        ending = asyncio.ensure_future(_refused(answered(partial(late.end, commit=True))))
        await stage.until("the end is held", lambda: is_held(stage))
        await answered(partial(producer.end, commit=True))
        await answered(partial(producer.write, 0, [b"2"], NOW_MS))
        let_go(stage)
        await ending
        await _refused(answered(partial(producer.end, commit=False)))
        await expect_committed(cluster, 0, [b"1"])


def _expect_held(stage: Stage) -> None:
    if not is_held(stage):
        raise ExpectationFailed("the schedule does not hold the request that it is about")


async def late_batch(stage: Stage) -> None:
    """A batch of a transaction arrives after the transaction's abort."""
    await make_topics(stage.cluster, {TOPIC.topic: 1})
    async with connected(stage, 1) as cluster:
        producer = TransactionalProducer(cluster, ID, TIMEOUT_S, second=False)
        await answered(producer.init)
        hold(stage, RequestFilter(APIS["Produce"], name=ID))
        while not is_held(stage):  # the partition is added first
            with suppress(Unavailable):
                await producer.write(0, [b"1"], NOW_MS)
        await answered(partial(producer.end, commit=False))
        let_go(stage)
        await asyncio.sleep(LATER_S)
        await expect_committed(cluster, 0, [])


async def marker_before_append(stage: Stage) -> None:
    """The abort's marker is written after the coordinator confirmed the batch's partition, and
    before the leader hears of that.
    """
    found, leader = await _led_elsewhere(stage)
    async with connected(stage, 1) as cluster:
        producer = TransactionalProducer(cluster, ID, TIMEOUT_S, second=False)
        await answered(producer.init)
        asks = RequestFilter(APIS["AddPartitionsToTxn"])
        stage.links.watch_requests([(leader, found)], LATE, BROKER_PORT, None, asks)
        await answered(partial(producer.write, 0, [b"1"], NOW_MS))
        await answered(partial(producer.end, commit=True))
        seen = stage.links.watched_requests((leader, found), LATE)
        assert seen is not None
        answers = Cut(found, leader, int(seen.noted[0].connection.rpartition(":")[2]))
        await answered(partial(producer.add, 0))
        stage.cut(answers)
        writing = asyncio.ensure_future(_refused(producer.write(0, [b"2"], NOW_MS)))
        await asyncio.sleep(0.1)
        await answered(partial(producer.end, commit=False))
        await asyncio.sleep(0.1)
        stage.uncut(answers)
        await writing
        await asyncio.sleep(LATER_S)
        await expect_committed(cluster, 0, [b"1"])


async def late_marker(stage: Stage) -> None:
    """The marker of a transaction arrives twice: the first request only in the next transaction."""
    found, _ = await _led_elsewhere(stage)
    async with connected(stage, 1) as cluster:
        producer = TransactionalProducer(cluster, ID, TIMEOUT_S, second=True)
        await answered(producer.init)
        await answered(partial(producer.write, 0, [b"1"], NOW_MS))
        hold(stage, RequestFilter(APIS["WriteTxnMarkers"]), sources=[found])
        await answered(partial(producer.end, commit=True))
        await answered(partial(producer.write, 0, [b"2"], NOW_MS))
        _expect_held(stage)
        let_go(stage)
        await asyncio.sleep(LATER_S)
        await _refused(answered(partial(producer.end, commit=False)))
        await expect_committed(cluster, 0, [b"1"])


async def timed_out(stage: Stage) -> None:
    """A transaction is aborted because it takes too long, and its producer goes on."""
    await make_topics(stage.cluster, {TOPIC.topic: 1})
    async with connected(stage, 1) as cluster:
        producer = TransactionalProducer(cluster, ID, 1.0, second=True)
        await answered(producer.init)
        await answered(partial(producer.write, 0, [b"1"], NOW_MS))
        await asyncio.sleep(4)
        try:
            await answered(partial(producer.write, 0, [b"2"], NOW_MS))
            await answered(partial(producer.end, commit=True))
        except (Fenced, Refused):
            await expect_committed(cluster, 0, [])
        else:
            await expect_committed(cluster, 0, [b"1", b"2"])


async def repeated_end(stage: Stage) -> None:
    """The answer to the end of a transaction is lost, and the producer asks again."""
    await make_topics(stage.cluster, {TOPIC.topic: 1})
    found = await find_coordinator(stage, TRANSACTION)
    async with connected(stage, 1) as cluster:
        producer = TransactionalProducer(cluster, ID, TIMEOUT_S, second=True)
        await answered(producer.init)
        await answered(partial(producer.write, 0, [b"1"], NOW_MS))
        answers = Cut(found, CLIENTS, BROKER_PORT, answers=True)
        stage.cut(answers)
        with suppress(Unavailable):
            await producer.end(commit=True)
        stage.uncut(answers)
        if await _refused(answered(partial(producer.end, commit=True))):
            raise ExpectationFailed(
                "repeated end: a commit is refused that was done, so the producer aborts"
            )
        await expect_committed(cluster, 0, [b"1"])


async def open_for_long(stage: Stage) -> None:
    """Others write while a transaction is open, longer than producers are remembered."""
    await make_topics(stage.cluster, {TOPIC.topic: 1})
    async with connected(stage, 1) as cluster, connected(stage, 2) as other:
        producer = TransactionalProducer(cluster, ID, TIMEOUT_S, second=True)
        await answered(producer.init)
        now_ms = stage.cluster.clients.clock.ms
        await answered(partial(producer.write, 0, [b"1"], now_ms()))
        writer = TransactionalProducer(other, f"{ID}-2", TIMEOUT_S, second=True)
        await answered(writer.init)
        for number in range(6):
            await answered(partial(writer.write, 0, [b"other-%d" % number], now_ms()))
            await answered(partial(writer.end, commit=True))
            await asyncio.sleep(1)
        await answered(partial(producer.end, commit=True))
        seen = [b"1", *(b"other-%d" % number for number in range(6))]
        await expect_committed(cluster, 0, seen)


async def truncated_beginning(stage: Stage) -> None:
    """The first batch of a transaction is lost with its leader, which comes back as a follower."""
    _, leader = await _led_elsewhere(stage)
    async with connected(stage, 1) as cluster:
        await stage.send(count=3)
        producer = TransactionalProducer(cluster, ID, 2.0, second=True)
        await answered(producer.init)
        stage.cut(*_answers(stage, leader))
        with suppress(Unavailable):
            await producer.write(0, [b"1"], NOW_MS)
        stage.cluster.kill(leader)
        await stage.until("another one leads", lambda: stage.partition.leader not in (leader, -1))
        stage.heal_cuts()
        stage.cluster.start(leader)
        await asyncio.sleep(3)


def _answers(stage: Stage, leader: int) -> Sequence[Cut]:
    return [fetch_answers(of=leader, to=node) for node in stage.brokers if node != leader]
