"""Consumers that read from followers: who is sent where, and what a follower knows in time."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import BrokerEpoch, NodeId, Offset
from tests.support.nodes import virtual_time
from tests.support.nodes.fetching import BATCH, FOLLOWER, FetchBroker, only

HOUR_MS = 3_600_000


def test_consumers_read_from_followers_since_v11() -> None:
    """Up to the follower's high watermark; older clients must ask the leader (KIP-392)."""

    async def run() -> None:
        broker = FetchBroker(1)
        replica = broker.replica(0)
        replica.append(BATCH)
        replica.append(BATCH)
        broker.assign(0, leader=FOLLOWER, epoch=6)
        replica.append_fetched(b"", Offset(1))
        follows = {"current_leader_epoch": 6}
        part = only(await broker.fetch({0: 0}, part=follows))
        assert (part.high_watermark, len(part.records)) == (1, len(BATCH))
        assert not only(await broker.fetch({0: 1}, part=follows)).records
        beyond = only(await broker.fetch({0: 3}, part=follows))
        assert beyond.error_code is ErrorCode.offset_out_of_range
        old = await broker.fetch({0: 0}, part=follows, version=10)
        assert old.responses[0].partitions[0].error_code is ErrorCode.not_leader_or_follower
        fellow = only(await broker.fetch({0: 0}, part=follows, node=NodeId(3)))
        assert fellow.error_code is ErrorCode.not_leader_or_follower

    virtual_time.run(run())


def test_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    """At once, without records; in the leader's own rack, or without a rack, the leader serves."""

    async def run() -> None:
        broker = FetchBroker(1, rack_aware=True)
        broker.racks()
        broker.replica(0).append(BATCH)
        broker.commit(0)
        sent = only(await broker.fetch({0: 0}, rack_id="r3", max_wait_ms=HOUR_MS))
        assert (sent.preferred_read_replica, sent.high_watermark, sent.records) == (3, 1, b"")
        for rack in ("", "r1", "r9"):
            stays = only(await broker.fetch({0: 0}, rack_id=rack))
            assert (stays.preferred_read_replica, bool(stays.records)) == (-1, True), rack
        plain = FetchBroker(1)
        plain.racks()
        assert only(await plain.fetch({0: 0}, rack_id="r3")).preferred_read_replica == -1

    virtual_time.run(run())


def test_only_a_qualified_replica_is_preferred() -> None:
    """It must be in sync, in service, and have the offset."""

    async def run() -> None:
        broker = FetchBroker(1, rack_aware=True)
        broker.racks(n2=True)
        replica = broker.replica(0)
        for _ in range(2):
            replica.append(BATCH)
        broker.commit(0)

        async def preferred(rack: str, offset: int = 0) -> int:
            part = only(await broker.fetch({0: offset}, rack_id=rack))
            return int(part.preferred_read_replica)

        assert await preferred("r2") == -1, "fenced"
        assert await preferred("r3", 2) == 3
        replica.record_fetch(NodeId(3), Offset(2), BrokerEpoch(7), 0, log_start=Offset(1))
        assert await preferred("r3", 0) == -1, "deleted there"
        replica.append(BATCH)
        assert await preferred("r3", 3) == -1, "not there yet"
        broker.assign(0, isr=(1, 2))
        assert await preferred("r3", 2) == -1, "not in sync"

    virtual_time.run(run())


@pytest.mark.parametrize("rack_aware", [True, False])
def test_followers_hear_of_commits_at_once_if_consumers_read_from_them(rack_aware: bool) -> None:
    """Otherwise with the next records or at the end of the wait, which saves a round trip."""

    async def run() -> None:
        broker = FetchBroker(1, rack_aware=rack_aware)
        replica = broker.replica(0)
        replica.append(BATCH)
        session = (await broker.fetch({0: 0}, node=FOLLOWER, session=(0, 0))).session_id
        poll = asyncio.ensure_future(
            broker.fetch({0: 1}, node=FOLLOWER, session=(session, 1), max_wait_ms=1000)
        )
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0.1)
        assert not poll.done()
        replica.record_fetch(NodeId(3), Offset(1), BrokerEpoch(7), 0)
        begin = loop.time()
        part = only(await poll)
        assert (part.high_watermark, part.records) == (1, b"")
        assert (loop.time() - begin < 0.5) is rack_aware

    virtual_time.run(run())
