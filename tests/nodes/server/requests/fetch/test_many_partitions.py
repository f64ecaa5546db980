"""A fetch session with many partitions that are due at once."""

import asyncio
import inspect
from typing import Any

import pytest

from nodes.server.requests.fetch import fetch, partitions
from tests.support.nodes import virtual_time
from tests.support.nodes.fetching import BATCH, FOLLOWER, LEADER, FetchBroker, numbers

HOUR_MS = 3_600_000
PARTITIONS, AT_ONCE, JOINING = 10, 4, 1
WAITS = {"node": FOLLOWER, "max_wait_ms": HOUR_MS}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small numbers be many."""
    monkeypatch.setattr(partitions, "READ_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(partitions, "JOINING_AT_ONCE", JOINING)
    monkeypatch.setattr(fetch, "READ_AT_ONCE", AT_ONCE)


async def opened(broker: FetchBroker) -> int:
    """The id of a session of all partitions."""
    wanted = dict.fromkeys(range(PARTITIONS), 0)
    response = await broker.fetch(wanted, node=FOLLOWER, session=(0, 0))
    assert len(response.responses) == PARTITIONS, "a full response has all of them"
    return int(response.session_id)


def with_records(response: Any) -> list[int]:
    found = zip(numbers(response), response.responses, strict=True)
    return [number for number, topic in found if topic.partitions[0].records]


def test_a_request_reads_some_of_them_and_does_not_wait() -> None:
    """Before they are all read, a request with nothing to send answers at once."""

    async def run() -> None:
        broker = FetchBroker(PARTITIONS)
        session = await opened(broker)
        for number in range(PARTITIONS):
            broker.replica(number).append(BATCH)
        got = []
        for epoch in range(1, 4):
            broker.reader.reads = 0
            response = broker.start({}, session=(session, epoch), **WAITS)
            assert not inspect.isawaitable(response)
            assert broker.reader.reads <= AT_ONCE
            got += with_records(response)
        assert set(got) == set(range(PARTITIONS))

    virtual_time.run(run())


def test_what_a_waiting_request_did_not_read_comes_with_the_next() -> None:
    """All of them are written in one turn of the loop, while the request waits. It has read the
    first ones already, before they were written.
    """

    async def run() -> None:
        broker = FetchBroker(PARTITIONS)
        session = await opened(broker)
        epoch, named = 1, dict.fromkeys(range(AT_ONCE), 0)
        while not inspect.isawaitable(
            first := broker.start(named, session=(session, epoch), **WAITS)
        ):
            epoch += 1
        waiting = asyncio.ensure_future(first)
        await asyncio.sleep(1)
        assert not waiting.done()
        for number in reversed(range(PARTITIONS)):
            broker.replica(number).append(BATCH)
        got = with_records(await asyncio.wait_for(waiting, 60))
        assert len(got) == AT_ONCE
        for offset in range(1, 4):
            response = broker.start(
                dict.fromkeys(got[-AT_ONCE:], 1), session=(session, epoch + offset), **WAITS
            )
            got += with_records(response)
        assert sorted(set(got)) == list(range(PARTITIONS))

    virtual_time.run(run())


def test_partitions_whose_follower_may_join_the_isr_take_turns() -> None:
    """Nothing else is new, so requests wait, and a request for records is not held up."""

    async def run() -> None:
        broker = FetchBroker(PARTITIONS)
        broker.racks()
        for number in range(PARTITIONS):
            broker.assign(number, isr=(LEADER,))
        session = await opened(broker)
        seen: set[int] = set()
        for epoch in range(1, 30):
            progress = {n: _fetched_ms(broker, n) for n in range(PARTITIONS)}
            broker.now_ms += 1
            await broker.fetch({}, node=FOLLOWER, session=(session, epoch), max_wait_ms=1)
            read = {n for n in range(PARTITIONS) if _fetched_ms(broker, n) != progress[n]}
            assert len(read) <= AT_ONCE
            seen |= read if epoch > 10 else set()
        assert seen == set(range(PARTITIONS))

    virtual_time.run(run())


def _fetched_ms(broker: FetchBroker, number: int) -> float:
    return broker.replica(number).state.followers[FOLLOWER].caught_up_ms
