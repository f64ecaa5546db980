"""A follower and its leader, without sockets, in virtual time."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from nodes.config import load_config
from nodes.ids import BrokerEpoch, NodeId, Offset
from nodes.log.batch import Record, encode_batch
from nodes.log.errors import OffsetGap
from nodes.log.log import LogConfig
from nodes.server.follower.fetch_session import FetchSessionHandler
from nodes.server.follower.fetcher import ReplicaFetcherManager
from nodes.server.replicas.replica import Replica
from nodes.wire.errors import Disconnected
from tests.support.nodes import virtual_time
from tests.support.nodes.fetching import BATCH, EPOCH, FOLLOWER, LEADER, SOMEBODY, FetchBroker

CONFIG, _ = load_config(
    {
        "node.id": "2",
        "process.roles": "broker",
        "listeners": "PLAINTEXT://h2:9092",
        "controller.quorum.voters": "1@h1:9093",
        "log.dirs": "/memory",
    }
)
WAIT_S = CONFIG.replication.fetch_wait_max_ms / 1000
ONE_WAY_S = 0.001


class Registered:
    """The follower's registration."""

    broker_epoch = BrokerEpoch(7)


class Wire:
    """A Channel to the leader; `down` breaks it."""

    def __init__(self, pair: "Pair") -> None:
        self._pair = pair

    def begin(self, entity: Any, *, timeout_s: float) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().create_task(self._ask(entity))

    async def _ask(self, entity: Any) -> Any:
        pair = self._pair
        pair.requests.append(entity)
        await self._travel()
        answer = pair.leader.handler.handle(entity, SOMEBODY)
        if inspect.isawaitable(answer):
            answer = await answer
        await self._travel()
        return answer

    async def _travel(self) -> None:
        await asyncio.sleep(3600 if self._pair.mute else ONE_WAY_S)
        if self._pair.down:
            raise Disconnected("the network is down")

    def close(self) -> None:
        pass


class Pair:
    """Broker 1 leads `count` partitions that broker 2 follows; broker 3 is not in sync."""

    def __init__(self, count: int, fetch_bytes: int = 1 << 20) -> None:
        self.leader = FetchBroker(count)
        self.leader.clock = lambda: asyncio.get_running_loop().time() * 1000
        self.follower = FetchBroker(count, local=FOLLOWER)
        self.follower.racks()
        self.requests: list[Any] = []
        self.down = False
        self.mute = False
        for number in range(count):
            self.leader.assign(number, isr=(1, 2))
        self.fetchers = ReplicaFetcherManager(
            replace(CONFIG, replication=replace(CONFIG.replication, fetch_max_bytes=fetch_bytes)),
            cast(Any, self.follower.hosted),
            Registered(),
            lambda host, port: cast(Any, Wire(self)),
        )

    def follow(self, *numbers: int, leader: NodeId | None = LEADER) -> None:
        self.fetchers.update_leaders({self.follower.replica(n).partition: leader for n in numbers})

    def same(self, number: int) -> bool:
        ours, theirs = self.follower.replica(number).log, self.leader.replica(number).log
        start, end = theirs.start_offset, theirs.end_offset
        if (ours.start_offset, ours.end_offset) != (start, end):
            return False
        return bytes(ours.read(start, 1 << 20, end)) == bytes(theirs.read(start, 1 << 20, end))


async def until(condition: Callable[[], bool], patience_s: float = 10.0) -> float:
    """Wait until `condition()`; how long that took, in seconds."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110 - what is waited for knows of no event
            await asyncio.sleep(ONE_WAY_S / 4)
    return loop.time() - begin


def following(count: int, test: Callable[[Pair], Awaitable[None]]) -> None:
    async def followed(pair: Pair) -> None:
        pair.follow(*range(count))
        await test(pair)

    with_pair(count, followed)


def with_pair(
    count: int, test: Callable[[Pair], Awaitable[None]], fetch_bytes: int = 1 << 20
) -> None:
    async def run() -> None:
        pair = Pair(count, fetch_bytes)
        try:
            await test(pair)
        finally:
            pair.fetchers.stop()
            await asyncio.sleep(0)

    virtual_time.run(run())


def test_follower_copies_records_and_high_watermark() -> None:
    """Byte for byte; the leader commits after the follower's next fetch."""

    async def test(pair: Pair) -> None:
        await asyncio.sleep(1)
        pair.leader.replica(1).append(BATCH)
        committed = pair.leader.replica(1).state
        took_s = await until(lambda: committed.high_watermark == 1)
        assert took_s < 5 * ONE_WAY_S, "one way, back, and one way"
        assert pair.same(1)
        await until(lambda: pair.follower.replica(1).state.high_watermark == 1)

    following(3, test)


def test_idle_follower_sends_no_partition() -> None:
    """One request per wait, without partitions."""

    async def test(pair: Pair) -> None:
        await asyncio.sleep(1)
        pair.requests.clear()
        await asyncio.sleep(10 * WAIT_S)
        assert 9 <= len(pair.requests) <= 11
        assert not any(request.topics for request in pair.requests)

    following(50, test)


def test_new_partition_is_fetched_while_a_fetch_waits() -> None:
    """It is fetched at once, in a request beside the one that waits."""

    async def test(pair: Pair) -> None:
        pair.follow(1, leader=None)
        await asyncio.sleep(1 + WAIT_S / 2)
        pair.leader.replica(1).append(BATCH)
        pair.follow(1)
        assert await until(lambda: pair.same(1)) < 10 * ONE_WAY_S

    following(2, test)


def test_follower_fetches_in_a_new_leader_epoch_at_once() -> None:
    """Also if the leader hears of the epoch later than the follower."""

    async def test(pair: Pair) -> None:
        await asyncio.sleep(1)
        pair.follower.assign(0, epoch=6)
        pair.follow(0)
        await asyncio.sleep(0.1)
        pair.leader.assign(0, epoch=6, isr=(1, 2))
        pair.leader.replica(0).append(BATCH)
        pair.leader.replica(1).append(BATCH)
        assert await until(lambda: pair.same(1)) < 10 * ONE_WAY_S, "the other one goes on"
        await until(lambda: pair.same(0))
        assert pair.follower.replica(0).log.last_epoch == 6

    following(2, test)


def test_partition_with_errors_does_not_delay_others() -> None:
    """It is retried with pauses; the others continue as before."""

    async def test(pair: Pair) -> None:
        await asyncio.sleep(1)
        broken = pair.leader.hosted.replicas.pop(pair.leader.replica(0).partition)
        broken.watchers.changed()
        await asyncio.sleep(0.5)
        for _ in range(20):
            pair.leader.replica(1).append(BATCH)
            assert await until(lambda: pair.same(1)) < 10 * ONE_WAY_S
        await asyncio.sleep(2)
        pair.requests.clear()
        await asyncio.sleep(5)
        assert len(pair.requests) < 5 * 2 * 1000 / CONFIG.replication.fetch_backoff_ms + 15
        pair.leader.hosted.replicas[broken.partition] = broken
        broken.append(BATCH)
        await until(lambda: pair.same(0))

    following(2, test)


def test_fetcher_does_not_spin_while_the_leader_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that is due again while a request is in flight waits for it."""
    turns = 0
    has_changes = FetchSessionHandler.has_changes

    def counted(self: FetchSessionHandler, now_ms: float) -> bool:
        nonlocal turns
        turns += 1
        assert turns < 10_000, "virtual time stands still"
        return has_changes(self, now_ms)

    async def test(pair: Pair) -> None:
        pair.mute = True
        await asyncio.sleep(ONE_WAY_S)
        fetcher = pair.fetchers._fetchers[LEADER]
        followed = fetcher.session.current(1, pair.follower.replica(0).partition)
        assert followed is not None
        fetcher.session.pause(followed, asyncio.get_running_loop().time() * 1000 + 10)
        fetcher.wake()
        monkeypatch.setattr(FetchSessionHandler, "has_changes", counted)
        await asyncio.sleep(60)
        assert turns < 100

    following(2, test)


def test_fetcher_reconnects_after_a_broken_connection() -> None:
    """All partitions are sent again, because the state of the session is unknown."""

    async def test(pair: Pair) -> None:
        await asyncio.sleep(1)
        pair.down = True
        pair.leader.replica(0).append(BATCH)
        await asyncio.sleep(2)
        assert not pair.same(0)
        pair.down = False
        await until(lambda: pair.same(0))
        assert pair.requests[-1].session_id != 0

    following(2, test)


def test_follower_follows_the_leaders_log_start() -> None:
    """It deletes the records that the leader deleted, and its high watermark is not below the
    start."""

    async def test(pair: Pair) -> None:
        leader = pair.leader.replica(0)
        for _ in range(3):
            leader.append(BATCH)
        await until(lambda: pair.same(0))
        leader.log.advance_start(Offset(2))
        leader.watchers.changed()
        await until(lambda: pair.same(0))
        follower = pair.follower.replica(0)
        assert follower.log.start_offset == 2 <= follower.state.high_watermark
        progress = leader.state.followers[FOLLOWER]
        await until(lambda: progress.log_start == 2)

    following(1, test)


def test_log_below_the_leaders_start_is_truncated_fully() -> None:
    """It restarts at the leader's log start; the change is checkpointed before the next append."""

    async def test(pair: Pair) -> None:
        leader = pair.leader.replica(0)
        await asyncio.sleep(1)
        pair.down = True
        for _ in range(5):
            leader.append(BATCH)
        leader.log.advance_start(Offset(3))
        pair.down = False
        await until(lambda: pair.same(0))
        assert pair.follower.hosted.truncations == 1

    following(1, test)


@pytest.mark.parametrize("common", [0, 2])
def test_follower_truncates_where_its_log_diverges(common: int) -> None:
    """By leader epoch: records that only the follower had are discarded, common ones stay
    (KIP-101)."""

    async def run() -> None:
        pair = Pair(1)
        leader, follower = pair.leader.replica(0), pair.follower.replica(0)
        for _ in range(common):
            leader.append(BATCH)
        if common:
            follower.log.append_as_follower(leader.log.read(Offset(0), 1 << 20, Offset(common)))
        mine = encode_batch([Record(value=b"of nobody else")], timestamp_ms=1)
        pair.follower.assign(0, leader=FOLLOWER, epoch=6)
        follower.append(mine)
        for broker in (pair.leader, pair.follower):
            broker.assign(0, epoch=7, isr=(1, 2))
        leader.append(BATCH)
        pair.follow(0)
        await until(lambda: pair.same(0))
        assert leader.log.end_offset == common + 1
        pair.fetchers.stop()
        await asyncio.sleep(0)

    virtual_time.run(run())


def test_diverged_follower_keeps_nothing_below_the_leaders_start() -> None:
    """Retention has removed the records that the leader would compare. The follower's own ones at
    those offsets must be gone before a fetch reports that it has caught up: the leader may propose
    it for the ISR at once."""

    async def run() -> None:
        pair = Pair(1)
        leader, follower = pair.leader.replica(0), pair.follower.replica(0)
        mine = encode_batch([Record(value=b"of nobody else")], timestamp_ms=1)
        pair.follower.assign(0, leader=FOLLOWER, epoch=6)
        for _ in range(4):
            follower.append(mine)
        for broker in (pair.leader, pair.follower):
            broker.assign(0, epoch=7, isr=(1, 2))
        for _ in range(3):
            leader.append(BATCH)
        leader.log.advance_start(Offset(3))
        pair.follow(0)
        await until(lambda: pair.same(0))
        fetches = [part for each in pair.requests for t in each.topics for part in t.partitions]
        claimed = {part.log_start_offset for part in fetches if part.fetch_offset == 3}
        assert claimed == {3}
        pair.fetchers.stop()
        await asyncio.sleep(0)

    virtual_time.run(run())


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replica_out_of_sync_is_throttled(side: str) -> None:
    """It gets the rate and not much more; the topic without a throttle gets everything at once."""
    rate = 10 * len(BATCH)

    async def test(pair: Pair) -> None:
        broker = pair.leader if side == "leader" else pair.follower
        for each in (pair.leader, pair.follower):
            for number in range(2):
                each.assign(number, isr=(1,))
        for number in range(2):
            for _ in range(100):
                pair.leader.replica(number).append(BATCH)
        named = f"0:{1 if side == 'leader' else 2},1:3"
        broker.configure(
            "t0",
            {f"{side}.replication.throttled.rate": str(rate)},
            {f"{side}.replication.throttled.replicas": named},
        )
        throttled = pair.follower.replica(0).log
        pair.follow(0, 1)
        await until(lambda: pair.same(1))
        await asyncio.sleep(4)
        assert 20 <= throttled.end_offset <= 10 + 40 + 5
        for each in (pair.leader, pair.follower):
            each.assign(0, isr=(1, 2))
        pair.leader.replica(0).append(BATCH)
        pair.follow(0)
        await until(lambda: pair.same(0), 1)

    with_pair(2, test, fetch_bytes=2 * len(BATCH))


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttle_that_is_gone_holds_nothing_up(side: str) -> None:
    """However long the debt would have taken to pay: here a minute for each batch."""

    async def test(pair: Pair) -> None:
        broker = pair.leader if side == "leader" else pair.follower
        for each in (pair.leader, pair.follower):
            each.assign(0, isr=(1,))
        for _ in range(20):
            pair.leader.replica(0).append(BATCH)
        broker.configure(
            "t0",
            {f"{side}.replication.throttled.rate": str(len(BATCH) // 60)},
            {f"{side}.replication.throttled.replicas": "*"},
        )
        pair.follow(0)
        await asyncio.sleep(10)
        assert not pair.same(0)
        broker.configure("t0", {}, {})
        pair.fetchers.configs_changed()
        await until(lambda: pair.same(0), 1)

    with_pair(1, test, fetch_bytes=2 * len(BATCH))


def test_fetcher_backs_off_when_appending_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with its log, a retry a moment later does not help."""

    def append(*_: object) -> None:
        raise OffsetGap("a batch at offset 434 for a log at 435")

    async def test(pair: Pair) -> None:
        pair.leader.replica(0).append(BATCH)
        monkeypatch.setattr(Replica, "append_fetched", append)
        pair.follow(0)
        await asyncio.sleep(10)
        assert 5 <= sum(1 for request in pair.requests if asked(request)) <= 20

    following(1, test)


async def unflushed(pair: Pair, records: int) -> asyncio.Event:
    """Both have the records, the follower not on its disk, with flush.messages=1; it is told to
    follow. The event lets its disk sync."""
    pair.follow(0, leader=None)
    await asyncio.sleep(1)
    synced, log = asyncio.Event(), pair.leader.replica(0).log
    sync = pair.follower.disk.sync

    async def slowly(target: Any) -> None:
        await synced.wait()
        await sync(target)

    pair.follower.disk.sync = slowly  # type: ignore[method-assign]
    for _ in range(records):
        pair.leader.replica(0).append(BATCH)
    replica = pair.follower.replica(0)
    replica.configure(LogConfig(flush_messages=1), 1)
    replica.append_fetched(bytes(log.read(Offset(0), 1 << 20, log.end_offset)), Offset(0))
    pair.requests.clear()
    pair.follow(0)
    await asyncio.sleep(1)
    return synced


def test_first_fetch_waits_until_the_log_is_flushed(caplog: pytest.LogCaptureFixture) -> None:
    """With flush.messages=1: a fetch from below the log's end would bring records that are there
    already."""

    async def test(pair: Pair) -> None:
        synced = await unflushed(pair, 3)
        assert not pair.requests
        synced.set()
        await until(lambda: pair.leader.replica(0).state.high_watermark == 3)
        assert asked(pair.requests[0]) == [3]
        assert "cannot follow" not in caplog.text

    following(1, test)


def test_replica_that_became_leader_during_the_flush_does_not_fetch() -> None:
    """It appended in a new epoch meanwhile; the old leader would take the offset for one of its own
    log."""

    async def test(pair: Pair) -> None:
        synced = await unflushed(pair, 3)
        pair.follower.assign(0, leader=FOLLOWER, epoch=EPOCH + 1, isr=(1, 2))
        pair.follower.replica(0).append(BATCH)
        synced.set()
        await until(lambda: bool(pair.requests))
        assert asked(pair.requests[0]) == []

    following(1, test)


def asked(request: Any) -> list[int]:
    """The offsets that a fetch asks for."""
    return [part.fetch_offset for topic in request.topics for part in topic.partitions]
